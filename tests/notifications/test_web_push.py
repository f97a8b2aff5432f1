"""Web Push, held to the examples of its RFCs."""

from __future__ import annotations

import json

import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec

from deepwork.kernel.errors import InvalidInput
from deepwork.views.notifications import web_push
from deepwork.views.notifications.settings import PUSH_HOSTS, encode, require_push_service, require_url
from notifications.make import Browser, decode, verify_authorization

PLAINTEXT = b"When I grow up, I want to be a watermelon"
SERVER_KEY = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
BROWSER_KEY = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
BROWSER_POINT = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
ENCRYPTED = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK"
    "6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
"""RFC 8291, appendix A."""
VAPID = (
    "vapid t=eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1"
    "MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwD"
    "Xb1JrErtmysazNjjvW2L9OkSSHzvoD1oA, "
    "k=BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"
)
"""RFC 8292, section 2.4."""


def load(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decode(text), "big"), ec.SECP256R1())


def test_the_example_of_rfc_8291_is_encrypted_to_the_same_bytes():
    found = web_push.encrypt_with(load(SERVER_KEY), decode(SALT), PLAINTEXT, BROWSER_POINT, AUTH)

    assert encode(found) == ENCRYPTED


def test_our_browser_reads_the_example_of_rfc_8291():
    browser = Browser(load(BROWSER_KEY), decode(AUTH))

    assert browser.public_key == BROWSER_POINT
    assert browser.decrypt(decode(ENCRYPTED)) == PLAINTEXT


def test_our_push_service_accepts_the_example_of_rfc_8292_and_no_other():
    assert verify_authorization(VAPID)["aud"] == "https://push.example.net"
    with pytest.raises(InvalidSignature):
        verify_authorization(VAPID.replace("i3CYb7t4", "i3CYb7t5"))


def test_a_message_is_read_by_the_browser_that_it_is_for_and_by_no_other():
    browser, other = Browser(), Browser()
    once, again = (web_push.encrypt(b"hello", browser.public_key, browser.auth) for _ in range(2))

    assert browser.decrypt(once) == browser.decrypt(again) == b"hello"
    assert once != again
    with pytest.raises(InvalidTag):
        other.decrypt(once)


def test_the_longest_message_fits_and_a_longer_one_is_refused():
    browser = Browser()
    longest = b"x" * web_push.MAX_PLAINTEXT

    found = web_push.encrypt(longest, browser.public_key, browser.auth)

    assert browser.decrypt(found) == longest
    assert len(found) <= 4096
    with pytest.raises(InvalidInput):
        web_push.encrypt(longest + b"x", browser.public_key, browser.auth)


@pytest.mark.parametrize(
    ("origin", "contact"),
    [("https://box.example.org", {"sub": "https://box.example.org"}), ("http://localhost:8765", {})],
)
def test_a_token_names_the_push_service_and_ends_within_a_day(origin: str, contact: dict[str, str]):
    pem, now = web_push.generate_key(), 1_800_000_000_000

    header = web_push.build_authorization(pem, "https://fcm.googleapis.com/fcm/send/abc?x=1", origin, now)

    claims = verify_authorization(header)
    assert claims.pop("exp") - now // 1000 == 12 * 3600
    assert claims == {"aud": "https://fcm.googleapis.com", **contact}
    assert header.endswith(f"k={web_push.get_public_key(pem)}")


@pytest.mark.parametrize("key", ["", "AAAA", "not base64!", BROWSER_POINT[:-4] + "AAAA", SERVER_KEY])
def test_what_is_no_key_of_a_browser_is_refused(key: str):
    with pytest.raises(InvalidInput):
        web_push.require_subscription(key, AUTH)


def test_the_secret_of_a_subscription_has_sixteen_bytes():
    web_push.require_subscription(BROWSER_POINT, AUTH)
    with pytest.raises(InvalidInput):
        web_push.require_subscription(BROWSER_POINT, AUTH[:-4])


@pytest.mark.parametrize(
    "url",
    [
        "https://fcm.googleapis.com/fcm/send/x",
        "https://updates.push.services.mozilla.com/wpush/v2/x",
        "https://web.push.apple.com/x",
        "https://wns2-par02p.notify.windows.com/w/?token=x",
    ],
)
def test_the_push_services_of_browsers_are_known(url: str):
    assert require_push_service(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x",
        "http://fcm.googleapis.com/x",
        "https://fcm.googleapis.com.example.org/x",
        "https://evilpush.apple.com.example/x",
        "https://notify.windows.com/x",
        "http://127.0.0.1:9/x",
        "http://169.254.169.254/latest/meta-data",
        "https://user@fcm.googleapis.com/x",
        "https://fcm.googleapis.com@example.org/x",
    ],
)
def test_a_page_cannot_make_a_server_ask_any_other_host(url: str):
    assert all(not each.startswith("example") for each in PUSH_HOSTS)
    with pytest.raises(InvalidInput):
        require_push_service(url)


def test_a_push_service_that_the_user_allowed_may_be_on_this_machine():
    assert require_push_service("http://127.0.0.1:9/x", ("127.0.0.1:9",))
    with pytest.raises(InvalidInput):
        require_push_service("http://127.0.0.1:10/x", ("127.0.0.1:9",))


@pytest.mark.parametrize(
    "url",
    ["ftp://a/b", "https://", "//a/b", "http://example.org/x", "https://a b/", "https://a/#b", "https://ä.de/",
     "file:///etc/passwd", "https://a:99999/", "http://169.254.169.254/x", "https://[::1", "https://a/\nX: y", "x" * 3000],
)  # fmt: skip
def test_what_is_no_address_to_send_to_is_refused(url: str):
    with pytest.raises(InvalidInput):
        require_url(url)


@pytest.mark.parametrize(
    "url",
    ["https://example.org/a?b=c", "http://localhost:1/x", "http://[::1]:1/x", "http://192.168.1.5:8080/t"],
)
def test_https_and_this_network_are_accepted(url: str):
    assert require_url(url) == url
    assert json.dumps(url)
