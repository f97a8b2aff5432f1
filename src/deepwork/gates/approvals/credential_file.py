"""Keeps a copy of what this user enrolled in the user's own folder, for stores that know nothing of it yet.

So a passphrase is enrolled once for all projects, and a new store does not begin with the weakest proof.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from deepwork.gates.approvals.credentials import Credential
from deepwork.kernel.environment import choose_user_file
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.atomic import write_atomically
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file
from deepwork.kernel.trust.models import CredentialKind

_VERSION = 1
_FIELDS = ("id", "name", "data", "created_at")


class CredentialFile:
    """The credentials of this user; readers never see half a change, writers wait for each other."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._path = choose_user_file("credentials.json", environment)

    def load(self) -> list[Credential]:
        """Load all credentials; raises StorageError if the file cannot be relied on."""
        content = read_private_file(self._path)
        if content is None:
            return []
        try:
            return [_parse_credential(each) for each in json.loads(content)["credentials"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self._path} is damaged, so nobody can prove to be a person with it.",
                suggestion="Restore it from a backup; or remove it, then enroll your proof in each project.",
            ) from None

    def change(self, *, add: Iterable[Credential] = (), remove: Iterable[str] = ()) -> None:
        """Add and remove credentials, by their ids."""
        added, gone = list(add), set(remove)
        gone |= {each.id for each in added}
        make_private_folder(self._path.parent)
        with hold_file_lock(self._path.with_name("credentials.lock")):
            kept = [each for each in self.load() if each.id not in gone]
            rows = [_serialize_credential(each) for each in (*kept, *added)]
            data = {"version": _VERSION, "credentials": rows}
            write_atomically(self._path, json.dumps(data, indent=2).encode() + b"\n")


def _serialize_credential(credential: Credential) -> dict[str, Any]:
    values = {name: getattr(credential, name) for name in _FIELDS}
    return {**values, "method": credential.method.value}


def _parse_credential(data: Any) -> Credential:
    if not isinstance(data["data"], dict):
        raise TypeError
    return Credential(
        str(data["id"]),
        CredentialKind(data["method"]),
        str(data["name"]),
        data["data"],
        int(data["created_at"]),
    )
