"""Eight processes that guess a passphrase at the same time get five tries together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from approvals.person import PASSPHRASE, enroll_passphrase
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.credentials import CredentialStore

GUESSER = """
import sys
from deepwork.gates.approvals.person_proof import PersonProofs
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import NotAllowed

proofs = PersonProofs(Database(open_engine(sys.argv[1]), lambda tx, events: None))
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    try:
        proofs.check(Call("human:mallory", "approve", proof=GivenProof(f"guess number {number}")), "ab" * 32)
    except NotAllowed as refused:
        print("judged" if "not the passphrase" in refused.message else "locked")
"""


@pytest.mark.differs
def test_eight_processes_that_guess_get_five_tries_together(app: Application, location: str, tmp_path: Path):
    id = enroll_passphrase(app)
    guessers = [
        subprocess.Popen(
            [sys.executable, "-c", GUESSER, location],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for each in guessers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"

    for each in guessers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [line for each in guessers for line in each.communicate(timeout=120)[0].split()]

    assert (answers.count("judged"), answers.count("locked")) == (5, 27)
    with app.database.reading() as tx:
        [credential] = CredentialStore(tx).list_active()
    assert (credential.id, credential.failed_tries) == (id, 5)
    assert PASSPHRASE not in str(credential.data)
