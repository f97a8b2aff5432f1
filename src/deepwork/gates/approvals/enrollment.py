"""Enrolls credentials of people, and proves acts by them.

A passphrase is not an argument: the record of a call has a digest of its arguments.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Self

from deepwork.gates.approvals import credentials
from deepwork.gates.approvals.acts import ProvenAct
from deepwork.gates.approvals.credentials import (
    Credential,
    CredentialFile,
    CredentialStore,
    build_challenge,
    choose_required,
    require_verifier,
)
from deepwork.gates.approvals.models import (
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    build_closed_error,
    compute_digest,
    summarize,
)
from deepwork.gates.approvals.person_proof import (
    CheckedProof,
    PersonProofs,
    read_proof_state,
    require_caller,
    require_person_proof,
)
from deepwork.gates.approvals.service import ask, use
from deepwork.kernel.answers import Answer, Field, IsoTime, Name
from deepwork.kernel.call import Call, GivenProof, current_call, use_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed, NotAllowed, StorageError
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.user_settings import CredentialKind, UserSettings, load_user_settings
from deepwork.kernel.values import CaseInsensitiveEnum, copy_with, format_optional_timestamp, new_id

LASTS_MS = 10 * 60 * 1000
"""How long after a person approved an act on the page it can be done."""


def prove_act(
    database: Database, call: Call, arguments: Mapping[str, Any], about: Mapping[str, Any]
) -> ProvenAct:
    """Check that the call comes with the required proof; call it while no transaction is open.

    Commands cannot use a passkey, and a page does not know what it would have to sign. So a person with a
    passkey approves the act on the page Approvals, which binds the passkey to what is shown, then does it.
    """
    require_caller(call.caller)
    proofs = PersonProofs(database)
    state = proofs.read_state()
    subject = f"{call.tool}:{compute_digest(dict(arguments))[:16]}"
    shown = {"title": _describe(call.tool, arguments), "action": call.tool, "arguments": dict(arguments)}
    request = ApprovalRequest(ApprovalKind.ACT, subject, None, {**shown, **about}, LASTS_MS)
    if state.select(CredentialKind.PASSKEY):
        return ProvenAct(_use_approval(database, call, request), about)
    if state.required is CredentialKind.PASSPHRASE and state.credentials and call.read_passphrase:
        call = copy_with(call, proof=GivenProof(call.read_passphrase()))
    return ProvenAct(proofs.check(call, request.digest), about)


def _use_approval(database: Database, call: Call, request: ApprovalRequest) -> CheckedProof:
    with use_call(copy_with(call, record=None)):
        approval = ask(database, request)
        if approval.status is ApprovalStatus.PENDING:
            raise GateClosed(
                f"This needs your passkey: approve {approval.id} in the dashboard first.",
                code=Code.NEEDS_APPROVAL,
                suggestion="Open the inbox (deepwork dashboard --host localhost --open), approve "
                "it there, then do this again within ten minutes.",
                evidence={"approval": summarize(approval)},
            )
        if approval.status is ApprovalStatus.REFUSED:
            raise build_closed_error(approval)
        with database.transaction() as tx:
            return CheckedProof(
                CredentialKind(use(tx, request).method or CredentialKind.TOKEN), request.digest
            )


def _describe(tool: str, arguments: Mapping[str, Any]) -> str:
    named = (value for name, value in arguments.items() if name == "id" or name.endswith("_id"))
    return " ".join([tool.replace("_", " "), *map(str, list(named)[:1])])


log = logging.getLogger("deepwork")

CHALLENGE_MS = 10 * 60 * 1000
"""How long a person has to create a passkey."""


class ProofEvent(CaseInsensitiveEnum):
    """Event types; the payload says which proof, and which one decisions need now."""

    ENROLLED = "proof:enrolled"
    LOWERED = "proof:lowered"


class ProofChange(Answer):
    """What was enrolled or removed, and which proof decisions need now."""

    required: CredentialKind
    enrolled: str | None = None
    removed: list[str] | None = None


class EnrolledProof(Answer):
    """A passphrase or a passkey, without its secrets."""

    id: str
    method: CredentialKind
    name: str
    created_at: IsoTime
    locked_until: IsoTime | None = None
    """Until when nobody can try the passphrase again."""
    credential_id: str | None = None
    """The id of a passkey for browsers."""
    relying_party: str | None = None
    """The host name that a passkey works with."""

    @classmethod
    def of_credential(cls, credential: Credential, now: int) -> Self:
        return cls.of(
            credential,
            locked_until=format_optional_timestamp(
                credential.locked_until if credential.is_locked(now) else None
            ),
            credential_id=credential.data.get("credential_id"),
            relying_party=credential.data.get("relying_party"),
        )


class PersonProof(Answer):
    """Which proof decisions need, what the user's settings say, and what is enrolled."""

    required: CredentialKind
    settings: CredentialKind
    credentials: list[EnrolledProof]
    can_verify_passkeys: bool
    """Whether the package that passkeys need is installed."""
    challenge: str
    """What a new passkey has to answer, for ten minutes."""


class EnrollmentOperations:
    """What a person proves to be one with; each change needs the strongest proof that is enrolled."""

    traits: ClassVar = Traits(toolset="approvals", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database
        # What is only demanded, and enrolled nowhere yet, cannot be shown.
        self._proofs = PersonProofs(database, UserSettings)

    @operation("admin", long_running=True, for_people=True)
    def enroll_passphrase(
        self, verifier: Annotated[dict[str, Any], Field(description="Salt and hash, from `hash_passphrase`")]
    ) -> InTransaction[ProofChange]:
        """Enroll a passphrase, or change it."""
        require_verifier(verifier)
        challenge = build_challenge("enroll", "passphrase", compute_digest(verifier))
        checked = self._proofs.check(current_call(), challenge)
        return InTransaction(
            lambda: self._enroll(CredentialKind.PASSPHRASE, "passphrase", verifier, challenge, checked)
        )

    @operation("admin", long_running=True, for_people=True)
    def enroll_passkey(
        self,
        name: Name,
        credential: Annotated[
            dict[str, Any], Field(description="The new passkey, as the browser returned it")
        ],
        challenge: Annotated[
            str, Field(description="The challenge that it answers, from /api/v1/person-proof")
        ],
    ) -> InTransaction[ProofChange]:
        """Enroll a passkey, beside those that are enrolled."""
        call = current_call()
        with self._database.reading() as tx:
            _require_own_challenge(tx, challenge)
        origin = call.proof.origin if call.proof else ""
        data = credentials.verify_registration(credential, challenge.encode(), origin)
        # The audit log has a digest of the arguments: with them, it shows whether the key was replaced.
        data["enrolled_with"] = {"credential": credential, "challenge": challenge}
        about = build_challenge("enroll", "passkey", str(data["credential_id"]))
        checked = self._proofs.check(call, about)
        return InTransaction(lambda: self._enroll(CredentialKind.PASSKEY, name, data, about, checked))

    @operation("admin", long_running=True, for_people=True)
    def lower_proof(self, method: CredentialKind) -> InTransaction[ProofChange]:
        """Remove every enrolled proof that is stronger than this one."""
        challenge = build_challenge("lower", method)
        checked = self._proofs.check(current_call(), challenge)
        return InTransaction(lambda: self._lower(method, challenge, checked))

    @operation("read")
    def get_person_proof(self) -> PersonProof:
        """How you prove that a decision is a person's."""
        with self._database.reading() as tx:
            state = read_proof_state(tx)
            return PersonProof(
                required=state.required,
                settings=state.wanted,
                credentials=[EnrolledProof.of_credential(each, tx.now) for each in state.credentials],
                can_verify_passkeys=find_spec("webauthn") is not None,
                challenge=_create_challenge(tx),
            )

    def _enroll(
        self, method: CredentialKind, name: str, data: dict[str, Any], challenge: str, checked: CheckedProof
    ) -> ProofChange:
        with self._database.transaction() as tx:
            require_person_proof(tx, challenge, checked, UserSettings)
            store = CredentialStore(tx)
            _require_new_passkey(store.list_all(), data)
            # There is one passphrase, and any number of credentials.
            old = [each for each in store.list_active() if each.method is method is CredentialKind.PASSPHRASE]
            for each in old:
                store.remove(each.id)
            count = int(data.pop("sign_count", 0))
            made = Credential(new_id("pc"), method, name, data, tx.now, sign_count=count)
            store.add(made)
            return _finish(tx, ProofEvent.ENROLLED, made=made, removed=old)

    def _lower(self, method: CredentialKind, challenge: str, checked: CheckedProof) -> ProofChange:
        with self._database.transaction() as tx:
            require_person_proof(tx, challenge, checked, UserSettings)
            store = CredentialStore(tx)
            stronger = [each for each in store.list_active() if each.method.rank > method.rank]
            for each in stronger:
                store.remove(each.id)
            return _finish(tx, ProofEvent.LOWERED, removed=stronger)


def _create_challenge(tx: Transaction) -> str:
    """Create the challenge of a new passkey: it ends soon, and only this store can have made it."""
    text = f"{tx.now + CHALLENGE_MS}.{secrets.token_urlsafe(16)}"
    return f"{text}.{_sign(tx, text)}"


def _require_own_challenge(tx: Transaction, challenge: str) -> None:
    text, _, mark = challenge.rpartition(".")
    ends_at = text.partition(".")[0]
    is_ours = hmac.compare_digest(mark.encode(), _sign(tx, text).encode())
    if not is_ours or tx.now >= int(ends_at):
        raise NotAllowed(
            "This challenge was not made here, or it is too old.", suggestion="Reload the page and try again."
        )


def _sign(tx: Transaction, text: str) -> str:
    return tx.read_store_key().compute_digest(f"new passkey:{text}")


def _require_new_passkey(known: Iterable[Credential], data: dict[str, Any]) -> None:
    id = data.get("credential_id")
    if id is not None and any(each.data.get("credential_id") == id for each in known):
        raise NotAllowed("This passkey was enrolled here before.", suggestion="Create another one.")


def _finish(
    tx: Transaction, event: str, made: Credential | None = None, removed: Sequence[Credential] = ()
) -> ProofChange:
    """Emit the event, let the user's own folder follow, and answer what decisions need now."""
    gone = [each.id for each in removed]
    required = choose_required(load_user_settings().proof, CredentialStore(tx).list_active())
    tx.emit(event, {"required": required.value, "name": made.name if made else None})
    tx.after_commit(lambda: _save_in_user_folder(made, gone))
    return ProofChange(required=required, enrolled=made.id if made else None, removed=gone or None)


def _save_in_user_folder(made: Credential | None, removed: Sequence[str]) -> None:
    try:
        CredentialFile().change(add=[made] if made else [], remove=removed)
    except StorageError as error:  # the store has it; other stores ask for it to be enrolled again
        log.warning("The change of your proofs is not known to other stores: %s", error)
