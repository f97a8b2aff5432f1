"""Decides whether a decision comes with the proof, as the user demands it, that it is a person's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deepwork.gates.approvals import credentials
from deepwork.gates.approvals.credentials import (
    Credential,
    CredentialFile,
    CredentialStore,
    build_challenge,
    choose_required,
    matches_passphrase,
)
from deepwork.kernel.call import Call, GivenProof, is_person, use_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import CredentialKind, UserSettings, load_user_settings
from deepwork.kernel.values import copy_with

LoadSettings = Callable[[], UserSettings]


class PassphraseNeeded(NotAllowed):
    """The call came without the passphrase that it needs; a page asks for it and calls again."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error with the proof that is missing."""
        return {**super().to_dict(), "proof": CredentialKind.PASSPHRASE.value}


@dataclass(frozen=True)
class CheckedProof:
    """A proof that was right, and what it is about."""

    method: CredentialKind
    challenge: str
    credential_id: str | None = None


@dataclass(frozen=True)
class ProofState:
    """What a decision needs in this store now."""

    required: CredentialKind
    wanted: CredentialKind
    """What the user's settings say."""
    credentials: tuple[Credential, ...] = ()

    def select(self, method: CredentialKind) -> list[Credential]:
        """Return the credentials of this kind."""
        return [each for each in self.credentials if each.method is method]


def build_decision_challenge(verdict: str, id: str, digest: str, decided_at: int | None) -> str:
    """Build what the proof of a decision is about; the page builds the same.

    With the time of the decision before it, so that no proof is good twice, even if a person changes their
    mind and back.
    """
    return build_challenge(verdict, id, digest, str(decided_at or 0))


def read_proof_state(tx: Transaction, load_settings: LoadSettings = load_user_settings) -> ProofState:
    """Read which proof is required, and what is enrolled; in a new store, that is what is elsewhere."""
    wanted, stored = load_settings().proof, CredentialStore(tx).list_all()
    active = [each for each in stored if each.removed_at is None] if stored else CredentialFile().load()
    return ProofState(choose_required(wanted, active), wanted, tuple(active))


class PersonProofs:
    """Checks proofs. Call it while no transaction is open: a wrong try counts, whatever fails later."""

    def __init__(self, database: Database, load_settings: LoadSettings = load_user_settings) -> None:
        self._database, self._load_settings = database, load_settings

    def read_state(self) -> ProofState:
        """Read which proof is required, and what is enrolled."""
        with self._database.reading() as tx:
            return read_proof_state(tx, self._load_settings)

    def check(self, call: Call, challenge: str) -> CheckedProof:
        """Check that the call comes with the required proof for this challenge; raises NotAllowed."""
        require_caller(call.caller)
        # These transactions are not the call's effect, so they do not write its audit entry.
        with use_call(copy_with(call, record=None)):
            self._import_credentials()
            state, given = self.read_state(), call.proof or GivenProof()
            if state.required is CredentialKind.TOKEN:
                return CheckedProof(CredentialKind.TOKEN, challenge)
            _require_enrolled(state)
            if state.required is CredentialKind.PASSKEY:
                return self._check_passkey(state, given, challenge)
            return self._check_passphrase(state, given, challenge)

    def _import_credentials(self) -> None:
        """Enroll what this user enrolled elsewhere, in a store where nothing was enrolled ever."""
        with self._database.reading() as tx:
            is_known = bool(CredentialStore(tx).list_all())
            if not is_known:
                CredentialStore(tx).require_known_log()
        known = [] if is_known else CredentialFile().load()
        if not known:
            return
        with self._database.transaction() as tx:
            store = CredentialStore(tx)
            if not store.list_all():
                for credential in known:
                    store.add(credential)

    def _check_passphrase(self, state: ProofState, given: GivenProof, challenge: str) -> CheckedProof:
        if not given.passphrase:
            raise PassphraseNeeded(
                "This needs your passphrase.",
                code=Code.UNAUTHORIZED,
                suggestion="Type it at a terminal or in the dashboard, or pass it with --passphrase-stdin.",
            )
        [credential] = state.select(CredentialKind.PASSPHRASE)[-1:]
        with self._database.transaction() as tx:
            tried, now = CredentialStore(tx).begin_try(credential.id), tx.now
        if tried is None:
            raise self._build_locked_error(credential.id)
        if not matches_passphrase(given.passphrase, tried.data):
            raise _build_wrong_error(tried, now)
        with self._database.transaction() as tx:
            CredentialStore(tx).forget_tries(credential.id)
        return CheckedProof(CredentialKind.PASSPHRASE, challenge, credential.id)

    def _build_locked_error(self, id: str) -> NotAllowed:
        with self._database.reading() as tx:
            found = next((each for each in CredentialStore(tx).list_active() if each.id == id), None)
            now = tx.now
        wait = max(0, (found.locked_until or now) - now) if found else 0
        return NotAllowed(
            f"Too many wrong passphrases: the next try is possible in {_format_wait(wait)}.",
            code=Code.UNAUTHORIZED,
            suggestion="Wait. If it was not you who tried, see who did with `deepwork audit list`.",
        )

    def _check_passkey(self, state: ProofState, given: GivenProof, challenge: str) -> CheckedProof:
        if given.assertion is None:
            raise NotAllowed(
                "This needs your passkey, which works in a browser only.",
                code=Code.UNAUTHORIZED,
                suggestion="Decide in the dashboard: deepwork dashboard --open",
            )
        id = credentials.read_credential_id(given.assertion)
        keys = state.select(CredentialKind.PASSKEY)
        credential = next((each for each in keys if each.data.get("credential_id") == id), None)
        if credential is None:
            raise NotAllowed("This passkey is not enrolled here.", code=Code.UNAUTHORIZED)
        count = credentials.verify_assertion(
            given.assertion, credential.data, challenge, given.origin, credential.sign_count
        )
        with self._database.transaction() as tx:
            is_new = CredentialStore(tx).raise_sign_count(credential.id, count)
        if not is_new:
            raise NotAllowed("This answer of the passkey was used before.", code=Code.UNAUTHORIZED)
        return CheckedProof(CredentialKind.PASSKEY, challenge, credential.id)


def require_person_proof(
    tx: Transaction,
    challenge: str,
    proof: CheckedProof | None = None,
    load_settings: LoadSettings = load_user_settings,
) -> CredentialKind:
    """Return how the caller proves to be a person, in the transaction that stores what they decide.

    Raises NotAllowed if the proof is about something else, or if meanwhile a stronger one is required.
    Without a proof a person counts as one who has a token.
    """
    require_caller(tx.caller)
    checked = proof or CheckedProof(CredentialKind.TOKEN, challenge)
    active = CredentialStore(tx).list_active()
    required = choose_required(load_settings().proof, active)
    if checked.challenge != challenge or not _still_counts(checked, required, active):
        raise NotAllowed(
            "What you decided about, or the proof that it needs, changed meanwhile; nothing was decided.",
            code=Code.UNAUTHORIZED,
            suggestion="Look at it again, then decide again.",
        )
    return checked.method


def require_caller(caller: str) -> None:
    """Raise unless the caller counts as a person; which proof that needs is another question."""
    if not is_person(caller):
        raise NotAllowed(
            "Only a person can decide this, and this caller is not one.",
            code=Code.UNAUTHORIZED,
            suggestion="A person decides with `deepwork approvals`, or on the dashboard.",
        )


def _still_counts(checked: CheckedProof, required: CredentialKind, active: Sequence[Credential]) -> bool:
    is_enrolled = checked.credential_id is None or checked.credential_id in {each.id for each in active}
    return is_enrolled and checked.method.covers(required)


def _require_enrolled(state: ProofState) -> None:
    if not state.select(state.required):
        raise NotAllowed(
            f"Your settings demand a {state.required} as proof, but none is enrolled.",
            code=Code.UNAUTHORIZED,
            suggestion=f"Run: deepwork approvals enroll {state.required}",
        )


def _build_wrong_error(tried: Credential, now: int) -> NotAllowed:
    wait = (tried.locked_until or now) - now
    after = f"the next try is possible in {_format_wait(wait)}" if wait > 0 else "try again"
    return NotAllowed(
        f"That is not the passphrase; {after}.",
        code=Code.UNAUTHORIZED,
        suggestion="After five wrong ones in a row each further try has to wait longer.",
    )


def _format_wait(milliseconds: int) -> str:
    seconds = -(-milliseconds // 1000)
    if seconds < 120:
        return f"{seconds} seconds"
    return f"{-(-seconds // 60)} minutes"
