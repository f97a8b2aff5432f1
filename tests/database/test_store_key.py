"""The key of a store is sealed with the key of its user, and only that user can open it."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.kernel.database.store_key import (
    StoreKey,
    compute_hmac,
    create_store_key,
    derive_user_key,
    expose_key,
    hmac_hex,
    parse_identity,
    read_exposed_key,
    seal_key,
    unseal_key,
)

OURS, THEIRS = derive_user_key("a" * 64), derive_user_key("b" * 64)
KEY = StoreKey("3f", b"\x01" * 32, 5)


@given(key=st.binary(max_size=200), message=st.binary(max_size=300))
def test_the_digest_is_hmac_sha256(key: bytes, message: bytes):
    assert compute_hmac(key, message) == hmac.digest(key, message, "sha256")


def test_the_key_and_its_pads_compute_the_same_digest_as_sql_does():
    assert KEY.compute_digest("a text") == hmac_hex(KEY.key, "a text")


def test_its_own_user_opens_a_sealed_key():
    assert unseal_key(seal_key(KEY, OURS), OURS) == KEY


def test_another_user_cannot_open_it():
    assert unseal_key(seal_key(KEY, OURS), THEIRS) is None


@pytest.mark.parametrize("change", [{"id": "40"}, {"secret": "00" * 32}, {"keyed_from": 6}, {"mark": ""}])
def test_a_changed_row_is_refused(change: dict[str, object]):
    assert unseal_key(replace(seal_key(KEY, OURS), **change), OURS) is None  # type: ignore[arg-type]


def test_the_mark_of_another_store_is_refused():
    ours, other = seal_key(KEY, OURS), seal_key(create_store_key(), OURS)

    assert unseal_key(replace(ours, mark=other.mark), OURS) is None
    assert unseal_key(replace(ours, mark=other.mark, id=other.id), OURS) is None


def test_the_row_does_not_contain_the_key_unless_its_database_protects_it():
    assert KEY.key.hex() not in vars(seal_key(KEY, OURS)).values()
    assert read_exposed_key(expose_key(KEY)) == KEY


def test_a_key_is_not_shown_in_logs():
    assert repr(KEY.key) not in repr(KEY)
    assert expose_key(KEY).secret not in repr(expose_key(KEY))


def test_two_stores_have_different_ids_and_keys():
    one, other = create_store_key(), create_store_key()

    assert one.store_id != other.store_id
    assert one.key != other.key


def test_a_row_with_values_of_other_types_is_not_accepted():
    with pytest.raises(ValueError, match="invalid literal"):
        parse_identity({"id": 1, "secret": 2, "keyed_from": "x", "mark": 3})
