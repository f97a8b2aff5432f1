"""Builders for tests of the proof that a decision is a person's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from approvals.authenticator import ORIGIN, Authenticator
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.approvals.credentials import Credential, CredentialStore, HashCost, hash_passphrase
from deepwork.gates.approvals.enrollment import EnrollmentOperations
from deepwork.gates.approvals.person_proof import CheckedProof, PersonProofs
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.user_settings import CredentialKind

PASSPHRASE = "correct horse battery staple"
CHALLENGE = "ab" * 32
CHEAP = HashCost(n=2**4, r=1, p=1)
"""One guess costs nothing, so that tests can guess often."""


def write_settings(folder: Path, proof: str) -> None:
    """Write the user's settings; the environment names this folder as that of all settings."""
    (folder / "deepwork").mkdir(mode=0o700, exist_ok=True)
    (folder / "deepwork/config.yml").write_text(f"approvals: {{proof: {proof}}}\n")


def enroll_passphrase(app: Application, passphrase: str = PASSPHRASE) -> str:
    """Store a passphrase that is cheap to check, and return its id."""
    with app.database.transaction() as tx:
        data = hash_passphrase(passphrase, CHEAP)
        credential = Credential("pc_000000000001", CredentialKind.PASSPHRASE, "passphrase", data, tx.now)
        CredentialStore(tx).add(credential)
    return credential.id


@dataclass(frozen=True)
class Person:
    """Somebody who decides, with what they type."""

    app: Application
    caller: str = "human:ada"

    def check(
        self, passphrase: str = "", challenge: str = CHALLENGE, assertion: dict[str, Any] | None = None
    ) -> CheckedProof:
        """Check what the person sends along with a decision."""
        call = Call(self.caller, "approve", proof=GivenProof(passphrase, assertion, ORIGIN))
        return PersonProofs(self.app.database).check(call, challenge)

    def act(self, action: str, proof: GivenProof | None = None, **given: Any) -> Any:
        """Enroll or lower a proof."""
        spec = self.app.operations[action]
        return invoke(self.app.database, spec, given, Call(self.caller, action, proof=proof))

    def enroll_passkey(
        self, passkey: Authenticator, proof: GivenProof | None = None, challenge: str | None = None
    ) -> Any:
        """Create a passkey as the page does, and enroll it."""
        challenge = challenge or self.create_challenge()
        credential = passkey.register(challenge.encode())
        given = {"name": "laptop", "credential": credential, "challenge": challenge}
        return self.act("enroll_passkey", proof or GivenProof(origin=ORIGIN), **given)

    def create_challenge(self) -> str:
        return str(EnrollmentOperations(self.app.database).get_person_proof().challenge)
