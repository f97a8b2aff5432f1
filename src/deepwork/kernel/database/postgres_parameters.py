"""The parameters of a PostgreSQL connection, by its URL; one that a file chose gets nothing from this user.

Otherwise a URL in a repository could make the driver send this user's password to any server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import conninfo, pq

from deepwork.kernel.config import FILE_URL_SCHEME
from deepwork.kernel.environment import get_connection_variables, get_user_name
from deepwork.kernel.errors import StorageError

_MISSING_FILE = "/dev/null/none"
"""A file that cannot exist; without a name, the driver would read ~/.pgpass."""
_CREDENTIAL_SOURCES = {"passfile", "service", "servicefile"}
_WITHOUT_EMPTY_VALUE = {
    "connect_timeout": "5",
    "sslcertmode": "allow",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
}
"""Parameters that the driver refuses to be empty, with their usual values."""
_SUGGESTION = "Put the password into that URL, or pass the URL with DEEPWORK_DATABASE_URL or --db."


def parse_url(url: str) -> dict[str, Any]:
    """Parse the URL of a database into what was given in it; raises StorageError if it is invalid."""
    try:
        return dict(conninfo.conninfo_to_dict(f"postgresql://{url.partition('://')[2]}"))
    except psycopg.ProgrammingError:
        raise StorageError(
            "The PostgreSQL URL is invalid.", suggestion="Write it as postgresql://user@host:5432/database."
        ) from None


def is_from_file(url: str) -> bool:
    """Whether the URL came from config.yml, and not from a flag or the environment."""
    return url.startswith(f"{FILE_URL_SCHEME}://")


def build_parameters(url: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Build the parameters of a connection; if a file chose the URL, the driver reads no PG... variable."""
    given = parse_url(url)
    return _build_shielded(given, variables or get_connection_variables()) if is_from_file(url) else given


def _build_shielded(given: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    if sources := sorted(_CREDENTIAL_SOURCES & set(given)):
        raise StorageError(
            f"The database URL in config.yml has `{sources[0]}`, which a URL in a file must not have.",
            suggestion=_SUGGESTION,
        )
    if "PGSERVICE" in variables:  # the driver has no way to ignore it
        raise StorageError(
            "PGSERVICE is set, and the database URL is in config.yml: it would get the service's password.",
            suggestion="Unset PGSERVICE, or pass the URL with DEEPWORK_DATABASE_URL or --db.",
        )
    usual = {
        option.keyword.decode(): _get_usual_value(option)
        for option in pq.Conninfo.get_defaults()
        if option.envvar is not None and option.envvar.decode() in variables
    }
    return {**usual, "password": "", "passfile": _MISSING_FILE, **given}


def _get_usual_value(option: pq.ConninfoOption) -> str:
    """Return the value that the driver uses without a variable; an empty one is the same as none."""
    name = option.keyword.decode()
    if name == "user":
        return get_user_name()
    return _WITHOUT_EMPTY_VALUE.get(name) or (option.compiled or b"").decode()
