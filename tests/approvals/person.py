"""Builders for tests of the proof that a decision is a person's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deepwork.approvals.credential_store import CredentialStore
from deepwork.approvals.credentials import Credential
from deepwork.approvals.passphrase import Cost, hash_passphrase
from deepwork.approvals.person_proof import CheckedProof, PersonProofs
from deepwork.call import Call, GivenProof
from deepwork.server.application import Application
from deepwork.trust.models import Proof

PASSPHRASE = "correct horse battery staple"
CHALLENGE = "ab" * 32
CHEAP = Cost(n=2**4, r=1, p=1)
"""One guess costs nothing, so that tests can guess often."""


def write_settings(folder: Path, proof: str) -> None:
    """Write the user's settings; the environment names this folder as that of all settings."""
    (folder / "deepwork").mkdir(mode=0o700, exist_ok=True)
    (folder / "deepwork/config.yml").write_text(f"approvals: {{proof: {proof}}}\n")


def enroll_passphrase(app: Application, passphrase: str = PASSPHRASE) -> str:
    """Store a passphrase that is cheap to check, and return its id."""
    with app.database.transaction() as tx:
        data = hash_passphrase(passphrase, CHEAP)
        credential = Credential("pc_000000000001", Proof.PASSPHRASE, "passphrase", data, tx.now)
        CredentialStore(tx).add(credential)
    return credential.id


@dataclass(frozen=True)
class Person:
    """Somebody who decides, with what they type."""

    app: Application
    caller: str = "human:ada"

    def check(self, passphrase: str = "", challenge: str = CHALLENGE) -> CheckedProof:
        call = Call(self.caller, "approve", proof=GivenProof(passphrase))
        return PersonProofs(self.app.database).check(call, challenge)
