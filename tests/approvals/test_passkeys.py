"""What a passkey's answer is good for, and every forged one that must not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import Clock
from approvals.authenticator import ORIGIN, USER_PRESENT, Authenticator
from approvals.person import CHALLENGE, CHEAP, PASSPHRASE, Person, enroll_passphrase
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.credentials import build_challenge, hash_passphrase
from deepwork.gates.approvals.models import compute_digest
from deepwork.gates.approvals.person_proof import build_decision_challenge
from deepwork.kernel.call import GivenProof
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.user_settings import CredentialKind


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def test_an_enrolled_passkey_is_required_from_then_on(app: Application):
    passkey, ada = Authenticator(), Person(app)

    assert ada.enroll_passkey(passkey)["required"] == "passkey"

    with pytest.raises(NotAllowed, match="works in a browser only") as refused:
        ada.check(PASSPHRASE)
    assert "deepwork dashboard --open" in refused.value.suggestion
    assert ada.check(assertion=passkey.answer(CHALLENGE)).method is CredentialKind.PASSKEY


def test_forged_answers_are_refused(app: Application):
    passkey, ada = Authenticator(), Person(app)
    ada.enroll_passkey(passkey)
    stranger = Authenticator(credential_id=b"another passkey of somebody")
    thief = Authenticator(credential_id=passkey.credential_id, count=10)
    right = passkey.answer(CHALLENGE)
    ada.check(assertion=right)
    forged: dict[str, dict[str, Any]] = {
        "replayed": right,
        "about something else": passkey.answer("cd" * 32),
        "from another origin": passkey.answer(CHALLENGE, "https://localhost.example.org"),
        "from another port": passkey.answer(CHALLENGE, "http://localhost:8766"),
        "without user verification": passkey.answer(CHALLENGE, flags=USER_PRESENT),
        "of another site": passkey.answer(CHALLENGE, relying_party="example.org"),
        "made to register": passkey.answer(CHALLENGE, kind="webauthn.create"),
        "of a passkey that is not enrolled": stranger.answer(CHALLENGE),
        "signed with another key": thief.answer(CHALLENGE),
        "with an older counter": Authenticator(key=passkey.key).answer(CHALLENGE),
        "without a response": {"id": right["id"], "rawId": right["id"], "type": "public-key"},
        "with nonsense": {
            "id": right["id"],
            "rawId": "%",
            "type": "public-key",
            "response": {"signature": 1},
        },
    }

    accepted = []
    for name, answer in forged.items():
        try:
            ada.check(assertion=answer)
        except NotAllowed:
            continue
        accepted.append(name)

    assert accepted == []
    assert ada.check(assertion=passkey.answer(CHALLENGE)).method is CredentialKind.PASSKEY


def test_no_answer_is_good_for_two_decisions_even_if_the_passkey_counts_nothing():
    decisions = [
        ("approve", "ap_000000000001", "ab", None),
        ("refuse", "ap_000000000001", "ab", None),
        ("approve", "ap_000000000002", "ab", None),
        ("approve", "ap_000000000001", "cd", None),
        ("approve", "ap_000000000001", "ab", 1_800_000_000_000),
    ]

    assert len({build_decision_challenge(*each) for each in decisions}) == len(decisions)


def test_a_passkey_that_several_devices_share_counts_nothing_and_works(app: Application):
    passkey, ada = Authenticator(is_shared=True), Person(app)
    ada.enroll_passkey(passkey)

    assert ada.check(assertion=passkey.answer(CHALLENGE)).method is CredentialKind.PASSKEY
    assert (
        ada.check(challenge="cd" * 32, assertion=passkey.answer("cd" * 32)).method is CredentialKind.PASSKEY
    )


def test_a_passkey_is_enrolled_only_with_the_proof_before_it(app: Application):
    first, second, ada = Authenticator(), Authenticator(credential_id=b"the second passkey"), Person(app)
    enroll_passphrase(app)

    with pytest.raises(NotAllowed, match="needs your passphrase"):
        ada.enroll_passkey(first)
    ada.enroll_passkey(first, GivenProof(PASSPHRASE, origin=ORIGIN))
    with pytest.raises(NotAllowed, match="works in a browser only"):
        ada.enroll_passkey(second, GivenProof(PASSPHRASE, origin=ORIGIN))
    about_another = first.answer(build_challenge("enroll", "passkey", "cGFzc2tleQ"))
    with pytest.raises(NotAllowed, match="not valid here"):
        ada.enroll_passkey(second, GivenProof(assertion=about_another, origin=ORIGIN))
    id = second.register(b"")["id"]
    about_this = first.answer(build_challenge("enroll", "passkey", id))
    ada.enroll_passkey(second, GivenProof(assertion=about_this, origin=ORIGIN))

    assert ada.check(assertion=second.answer(CHALLENGE)).method is CredentialKind.PASSKEY
    assert ada.check(assertion=first.answer(CHALLENGE)).method is CredentialKind.PASSKEY


def test_a_new_passkey_must_answer_a_challenge_of_this_store_in_time(app: Application, clock: Clock):
    ada = Person(app)
    challenge = ada.create_challenge()
    forged = f"{clock.now + 1}.nonce.{'ab' * 32}"
    longer = challenge.replace(challenge.partition(".")[0], str(clock.now + 10**9))

    for bad in (forged, longer, "", "..", "a.b.c"):
        with pytest.raises(NotAllowed, match="not made here, or it is too old"):
            ada.enroll_passkey(Authenticator(), challenge=bad or "x")
    clock.advance(seconds=600)
    with pytest.raises(NotAllowed, match="not made here, or it is too old"):
        ada.enroll_passkey(Authenticator(), challenge=challenge)


def test_a_new_passkey_without_user_verification_or_from_another_page_is_refused(app: Application):
    ada = Person(app)
    for changed in ({"flags": USER_PRESENT}, {"origin": "http://localhost:9999"}):
        challenge = ada.create_challenge()
        credential = Authenticator().register(challenge.encode(), **changed)
        with pytest.raises(NotAllowed, match="not valid here"):
            ada.act(
                "enroll_passkey",
                GivenProof(origin=ORIGIN),
                name="x",
                credential=credential,
                challenge=challenge,
            )

    assert ada.check().method is CredentialKind.TOKEN


def test_a_passkey_cannot_be_enrolled_twice(app: Application):
    passkey, ada = Authenticator(), Person(app)
    ada.enroll_passkey(passkey)
    answer = passkey.answer(build_challenge("enroll", "passkey", passkey.register(b"")["id"]))

    with pytest.raises(NotAllowed, match="enrolled here before"):
        ada.enroll_passkey(passkey, GivenProof(assertion=answer, origin=ORIGIN))


def test_an_answer_about_one_passphrase_enrolls_no_other_one(app: Application):
    """One that somebody saw could be sent again: a passkey that several devices share does not count."""
    passkey, ada = Authenticator(is_shared=True), Person(app)
    ada.enroll_passkey(passkey)
    own, other = (hash_passphrase(f"{word} {PASSPHRASE}", CHEAP) for word in ("my", "your"))
    answer = passkey.answer(build_challenge("enroll", "passphrase", compute_digest(own)))
    unbound = passkey.answer(build_challenge("enroll", "passphrase"))

    for assertion in (answer, unbound):
        with pytest.raises(NotAllowed):
            ada.act("enroll_passphrase", GivenProof(assertion=assertion, origin=ORIGIN), verifier=other)

    ada.act("enroll_passphrase", GivenProof(assertion=answer, origin=ORIGIN), verifier=own)


def test_going_back_from_a_passkey_needs_that_passkey(app: Application):
    passkey, ada = Authenticator(), Person(app)
    enroll_passphrase(app)
    ada.enroll_passkey(passkey, GivenProof(PASSPHRASE, origin=ORIGIN))

    for proof in (
        GivenProof(),
        GivenProof(PASSPHRASE),
        GivenProof(assertion=passkey.answer(CHALLENGE), origin=ORIGIN),
    ):
        with pytest.raises(NotAllowed):
            ada.act("lower_proof", proof, method="passphrase")
    answer = passkey.answer(build_challenge("lower", "passphrase"))

    assert (
        ada.act("lower_proof", GivenProof(assertion=answer, origin=ORIGIN), method="passphrase")["required"]
        == "passphrase"
    )
    assert ada.check(PASSPHRASE).method is CredentialKind.PASSPHRASE
