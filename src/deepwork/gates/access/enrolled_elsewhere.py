"""The proofs that are enrolled in a SQLite file which is not marked as this user's, or which git tracks.

Whose mark a file has depends on a key, and where that is depends on the environment. So a program that runs
as this user could let their own store look like somebody else's; but what is enrolled in it still counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from deepwork.gates.approvals.credentials import (
    Credential,
    HashCost,
    find_strongest,
    matches_passphrase,
    require_verifier,
)
from deepwork.kernel.database.seals import has_plain_table
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.store_admin.copying import translate_errors
from deepwork.kernel.user_settings import CredentialKind

MOST_EXPENSIVE = HashCost(n=2**20, r=8, p=8)
"""A file from elsewhere could demand more memory than there is."""
_SELECT_SQL = """
    SELECT id, method, name, data FROM person_credentials WHERE removed_at IS NULL LIMIT 1000
"""


def require_enrolled_proof(store: SQLite, read_passphrase: Callable[[], str]) -> None:
    """Raise unless the person has the proof that is enrolled in this file of this user.

    Tries are not counted, because the file must not change: who has it can guess without deepwork as well.
    """
    if store.path.stat().st_uid != os.getuid():
        return
    credentials = _list_enrolled(store)
    if not credentials:
        return
    if find_strongest(credentials) is CredentialKind.PASSKEY:
        raise NotAllowed(
            f"A passkey is enrolled in {store.name}, which can be used only where the store is at home.",
            code=Code.UNAUTHORIZED,
            suggestion="Use the key with which it is marked (`~/.config/deepwork/store.key` of its user); or "
            "let its user run `deepwork approvals lower passphrase` there.",
        )
    passphrase = read_passphrase()
    if not any(
        _matches(passphrase, each.data) for each in credentials if each.method is CredentialKind.PASSPHRASE
    ):
        raise NotAllowed(
            f"A passphrase is enrolled in {store.name}, and this is not it.",
            code=Code.UNAUTHORIZED,
            suggestion="If the store is somebody else's, ask them for a backup that they made after "
            "`deepwork approvals lower token`.",
        )


def _list_enrolled(store: SQLite) -> list[Credential]:
    with translate_errors(store), store.reading() as connection:
        if not has_plain_table(connection, "person_credentials"):
            return []
        return [_parse(row) for row in connection.execute(_SELECT_SQL).fetchall()]


def _parse(row: Any) -> Credential:
    """Parse a row, which anybody may have written; one that is not valid cannot be proved, so it refuses."""
    try:
        data = json.loads(row["data"])
        method = CredentialKind(row["method"])
    except (ValueError, TypeError, RecursionError):
        data, method = {}, CredentialKind.PASSPHRASE
    return Credential(str(row["id"]), method, str(row["name"]), data, 0)


def _matches(passphrase: str, data: Any) -> bool:
    try:
        require_verifier(data)
    except InvalidInput:
        return False
    cost = HashCost(int(data["n"]), int(data["r"]), int(data["p"]))
    is_affordable = cost.n <= MOST_EXPENSIVE.n and cost.r <= MOST_EXPENSIVE.r and cost.p <= MOST_EXPENSIVE.p
    return is_affordable and matches_passphrase(passphrase, data)
