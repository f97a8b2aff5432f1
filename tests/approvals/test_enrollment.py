"""Enrolling a passphrase, changing it, going back, and what other stores of the same user know of it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from approvals.person import CHEAP, PASSPHRASE, Person, enroll_passphrase, write_settings
from deepwork.edge.server.application import Application
from deepwork.gates.access.models import AuditEntry
from deepwork.gates.access.store import AuditStore
from deepwork.gates.approvals.credentials import Credential, CredentialFile, hash_passphrase
from deepwork.kernel.call import GivenProof
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.user_settings import CredentialKind
from setup.sandbox import CommandResult, Sandbox

OTHER = "a very different passphrase"


@pytest.fixture
def settings_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "settings"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


@pytest.fixture
def ada(app: Application, settings_folder: Path) -> Person:
    return Person(app)


def enroll(ada: Person, new: str, old: str = "") -> None:
    ada.act("enroll_passphrase", GivenProof(old), verifier=hash_passphrase(new, CHEAP))


def list_entries(app: Application) -> list[AuditEntry]:
    with app.database.reading() as tx:
        newest = AuditStore(tx).list_newest(account=None, tool=None, since=None, limit=50)
    return [each.entry for each in reversed(newest)]


def test_changing_a_passphrase_needs_the_old_one(ada: Person):
    enroll(ada, PASSPHRASE)

    for old in ("", OTHER):
        with pytest.raises(NotAllowed):
            enroll(ada, OTHER, old)
    enroll(ada, OTHER, PASSPHRASE)

    with pytest.raises(NotAllowed, match="not the passphrase"):
        ada.check(PASSPHRASE)
    assert ada.check(OTHER).method is CredentialKind.PASSPHRASE


def test_going_back_to_a_token_needs_the_passphrase_whatever_the_settings_say(
    ada: Person, settings_folder: Path
):
    enroll(ada, PASSPHRASE)
    write_settings(settings_folder, "token")

    for proof in (None, GivenProof(OTHER)):
        with pytest.raises(NotAllowed):
            ada.act("lower_proof", proof, method="token")
    lowered = ada.act("lower_proof", GivenProof(PASSPHRASE), method="token")

    assert lowered["required"] == "token"
    assert ada.check().method is CredentialKind.TOKEN
    assert CredentialFile().load() == []


@pytest.mark.parametrize("action", ["enroll_passphrase", "lower_proof"])
def test_an_agent_can_neither_enroll_nor_lower(app: Application, settings_folder: Path, action: str):
    given = {"method": "token"} if action == "lower_proof" else {"verifier": hash_passphrase(OTHER, CHEAP)}

    with pytest.raises(NotAllowed, match="Only a person"):
        Person(app, "local").act(action, **given)


def test_every_change_and_every_wrong_try_is_in_the_audit_log_without_the_passphrase(ada: Person):
    enroll(ada, PASSPHRASE)
    with pytest.raises(NotAllowed):
        ada.act("lower_proof", GivenProof(OTHER), method="token")
    ada.act("lower_proof", GivenProof(PASSPHRASE), method="token")

    entries = list_entries(ada.app)
    assert [(each.caller, each.tool, each.outcome) for each in entries] == [
        ("human:ada", "enroll_passphrase", "done"),
        ("human:ada", "lower_proof", "UNAUTHORIZED"),
        ("human:ada", "lower_proof", "done"),
    ]
    assert PASSPHRASE not in str(entries)


def test_a_store_that_knows_nothing_takes_over_what_this_user_enrolled_elsewhere(ada: Person):
    data = hash_passphrase(PASSPHRASE, CHEAP)
    CredentialFile().change(add=[Credential("pc_000000000009", CredentialKind.PASSPHRASE, "mine", data, 1)])

    with pytest.raises(NotAllowed, match="needs your passphrase"):
        ada.check()
    with pytest.raises(NotAllowed, match="needs your passphrase"):
        ada.act("enroll_passphrase", verifier=data)
    assert ada.check(PASSPHRASE).method is CredentialKind.PASSPHRASE


def test_a_store_that_has_a_proof_takes_over_no_other(ada: Person):
    enroll_passphrase(ada.app)
    folder = CredentialFile()
    with ada.app.database.reading() as tx:
        now = tx.now
    data = hash_passphrase(OTHER, CHEAP)
    folder.change(add=[Credential("pc_000000000009", CredentialKind.PASSPHRASE, "mine", data, now)])

    with pytest.raises(NotAllowed, match="not the passphrase"):
        ada.check(OTHER)


@pytest.mark.parametrize("passphrase", ["", "short", "aaaaaaaaaaaaaaaaaaaa", " " * 40, "x" * 2000])
def test_a_passphrase_that_is_easy_to_guess_is_refused(passphrase: str):
    with pytest.raises(InvalidInput, match="at least 12 characters"):
        hash_passphrase(passphrase, CHEAP)


@pytest.mark.parametrize("verifier", [{}, {"n": 2}, {**hash_passphrase(OTHER, CHEAP), "salt": "x"}])
def test_what_is_not_a_hash_is_not_enrolled(ada: Person, verifier: dict[str, object]):
    with pytest.raises(InvalidInput, match="not the hash of a passphrase"):
        ada.act("enroll_passphrase", verifier=verifier)


# On the command line, with a real file and real costs.


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return Sandbox(tmp_path, monkeypatch)


def type_lines(shell: Sandbox, monkeypatch: pytest.MonkeyPatch, lines: str, *words: str) -> CommandResult:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    return shell.run(*words, "--passphrase-stdin")


def test_trusting_a_project_takes_the_same_proof_as_approvals(
    shell: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    shell.write(".deepwork/config.yml", "transport: http\n")
    assert type_lines(shell, monkeypatch, f"{PASSPHRASE}\n", "approvals", "enroll", "passphrase").code == 0

    for words in (("trust",), ("trust", "--yes")):
        refused = shell.run(*words)
        assert (refused.code, "needs your passphrase" in refused.err) == (1, True)
    wrong = type_lines(shell, monkeypatch, f"{OTHER}\n", "trust", "--yes")
    assert (wrong.code, "not the passphrase" in wrong.err) == (1, True)
    assert shell.run("trust", "--list").out == "You trust no project yet.\n"
    right = type_lines(shell, monkeypatch, f"{PASSPHRASE}\n", "trust")

    assert right.code == 0
    assert shell.run("trust", "--list", "--json").json["projects"][0]["proof"] == "passphrase"


def test_settings_that_demand_a_proof_keep_yes_from_trusting(shell: Sandbox):
    shell.write(".deepwork/config.yml", "transport: http\n")
    (shell.home / ".config/deepwork").mkdir(parents=True, mode=0o700)
    shell.write("~/.config/deepwork/config.yml", "approvals: {proof: passkey}\n")

    refused = shell.run("trust", "--yes")

    assert refused.code == 1
    assert "deepwork approvals enroll passkey" in refused.err
    assert shell.run("trust", "--list").out == "You trust no project yet.\n"


def test_the_commands_show_what_is_required_and_enrolled(shell: Sandbox, monkeypatch: pytest.MonkeyPatch):
    assert shell.run("approvals", "proof", "--json").json == {
        "required": "token",
        "settings": "token",
        "enrolled": [],
    }
    made = type_lines(
        shell, monkeypatch, f"{PASSPHRASE}\n", "approvals", "enroll", "passphrase", "--json"
    ).json
    shown = shell.run("approvals", "proof", "--json").json
    lowered = type_lines(shell, monkeypatch, f"{PASSPHRASE}\n", "approvals", "lower", "token", "--json").json

    assert (shown["required"], [each["id"] for each in shown["enrolled"]]) == (
        "passphrase",
        [made["enrolled"]],
    )
    assert lowered == {"required": "token", "removed": [made["enrolled"]]}
    assert json.loads((shell.home / ".config/deepwork/credentials.json").read_text())["credentials"] == []
    assert "created by a browser" in shell.run("approvals", "enroll", "passkey").err


def test_the_doctor_reports_user_settings_that_cannot_be_relied_on(shell: Sandbox):
    (shell.home / ".config/deepwork").mkdir(parents=True, mode=0o700)
    file = shell.write("~/.config/deepwork/config.yml", "approvals: {prof: passkey}\n")
    misspelt = shell.run("doctor", "--json").json["problems"]
    file.write_text("approvals: {proof: passkey}\n")
    file.chmod(0o666)
    writable = shell.run("doctor", "--json").json["problems"]

    assert any("unknown key 'approvals.prof'" in each for each in misspelt)
    assert any("may write it" in each for each in writable)


def test_verifying_the_audit_log_shows_proofs_that_somebody_wrote_into_the_store(
    shell: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    import sqlite3

    def verify() -> dict[str, object]:
        found: dict[str, object] = shell.run("audit", "verify", "--json").json
        return found

    def edit(sql: str, *values: object) -> None:
        with (
            contextlib.closing(sqlite3.connect(shell.project / ".deepwork/deepwork.db")) as connection,
            connection,
        ):
            connection.execute(sql, values)

    type_lines(shell, monkeypatch, f"{PASSPHRASE}\n", "approvals", "enroll", "passphrase")
    type_lines(shell, monkeypatch, f"{PASSPHRASE}\n{OTHER}\n", "approvals", "enroll", "passphrase")
    assert verify()["intact"] is True

    forged = json.dumps(hash_passphrase("known to the agent", CHEAP))
    edit(
        "INSERT INTO person_credentials (id, method, name, data, created_at) VALUES ('pc_x', 'passphrase', 'x', ?, 1)",
        forged,
    )
    added = verify()
    edit("DELETE FROM person_credentials WHERE id = 'pc_x'")
    edit("UPDATE person_credentials SET data = ? WHERE removed_at IS NULL", forged)
    replaced = verify()
    edit("DELETE FROM person_credentials")
    removed = verify()

    assert (added["intact"], added["problem"]) == (
        False,
        "no call in the log enrolled the passphrase pc_x of this store",
    )
    assert (replaced["intact"], "no call in the log enrolled" in str(replaced["problem"])) == (False, True)
    assert (removed["intact"], "was changed in the store or removed" in str(removed["problem"])) == (
        False,
        True,
    )
