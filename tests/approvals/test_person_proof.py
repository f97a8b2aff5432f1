"""Which proof a decision needs, how often somebody can guess, and what a proof is good for."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import Clock
from approvals.person import CHALLENGE, PASSPHRASE, Person, enroll_passphrase, write_settings
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.credentials import CredentialStore
from deepwork.gates.approvals.person_proof import CheckedProof, require_person_proof
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.user_settings import CredentialKind


@pytest.fixture(autouse=True)
def settings_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "settings"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


def test_by_default_a_person_needs_no_more_than_a_token(app: Application):
    assert Person(app).check() == CheckedProof(CredentialKind.TOKEN, CHALLENGE)


@pytest.mark.parametrize("caller", ["local", "builder", "session:human:ada", "anonymous", ""])
def test_an_agent_is_refused_whatever_it_sends(app: Application, caller: str):
    with pytest.raises(NotAllowed, match="Only a person"):
        Person(app, caller).check(PASSPHRASE)


def test_settings_that_demand_a_passphrase_are_refused_until_one_is_enrolled(
    app: Application, settings_folder: Path
):
    write_settings(settings_folder, "passphrase")

    with pytest.raises(NotAllowed, match="none is enrolled") as refused:
        Person(app).check()

    assert "deepwork approvals enroll passphrase" in refused.value.suggestion


def test_an_enrolled_passphrase_is_required_whatever_the_settings_say(
    app: Application, settings_folder: Path
):
    enroll_passphrase(app)
    write_settings(settings_folder, "token")

    with pytest.raises(NotAllowed, match="needs your passphrase"):
        Person(app).check()

    assert Person(app).check(PASSPHRASE).method is CredentialKind.PASSPHRASE


def test_five_wrong_passphrases_in_a_row_lock_it_and_each_further_one_doubles_the_wait(
    app: Application, clock: Clock
):
    enroll_passphrase(app)
    for _ in range(4):
        with pytest.raises(NotAllowed, match="not the passphrase; try again"):
            Person(app).check("wrong horse battery staple")
    with pytest.raises(NotAllowed, match="in 60 seconds"):
        Person(app).check("wrong horse battery staple")

    with pytest.raises(NotAllowed, match="Too many wrong passphrases"):
        Person(app).check(PASSPHRASE)  # the right one has to wait, too
    clock.advance(seconds=60)
    with pytest.raises(NotAllowed, match="in 2 minutes"):
        Person(app).check("wrong horse battery staple")
    clock.advance(seconds=119)
    with pytest.raises(NotAllowed, match="in 1 seconds"):
        Person(app).check(PASSPHRASE)
    clock.advance(seconds=1)

    assert Person(app).check(PASSPHRASE).method is CredentialKind.PASSPHRASE


def test_a_right_passphrase_forgets_the_wrong_ones_before_it(app: Application):
    enroll_passphrase(app)
    for _ in range(3):
        for _ in range(4):
            with pytest.raises(NotAllowed, match="try again"):
                Person(app).check("wrong horse battery staple")
        Person(app).check(PASSPHRASE)

    with app.database.reading() as tx:
        [credential] = CredentialStore(tx).list_active()
    assert (credential.failed_tries, credential.locked_until) == (0, None)


def test_a_proof_is_good_for_what_it_is_about_only(app: Application):
    enroll_passphrase(app)
    checked = Person(app).check(PASSPHRASE)

    with use_call(Call("human:ada")), app.database.transaction() as tx:
        assert require_person_proof(tx, CHALLENGE, checked) is CredentialKind.PASSPHRASE
        with pytest.raises(NotAllowed, match="changed meanwhile"):
            require_person_proof(tx, "cd" * 32, checked)
        with pytest.raises(NotAllowed, match="changed meanwhile"):
            require_person_proof(tx, CHALLENGE, None)


def test_a_proof_counts_no_more_if_a_stronger_one_was_enrolled_meanwhile(app: Application):
    checked = Person(app).check()
    id = enroll_passphrase(app)

    with use_call(Call("human:ada")), app.database.transaction() as tx:
        with pytest.raises(NotAllowed, match="changed meanwhile"):
            require_person_proof(tx, CHALLENGE, checked)
        CredentialStore(tx).remove(id)
        assert require_person_proof(tx, CHALLENGE, checked) is CredentialKind.TOKEN


def test_a_removed_passphrase_counts_no_more(app: Application):
    id = enroll_passphrase(app)
    checked = Person(app).check(PASSPHRASE)

    with use_call(Call("human:ada")), app.database.transaction() as tx:
        CredentialStore(tx).remove(id)
        with pytest.raises(NotAllowed, match="changed meanwhile"):
            require_person_proof(tx, CHALLENGE, checked)
