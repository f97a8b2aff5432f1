"""Opening the database at a location."""

from __future__ import annotations

from deepwork.kernel.config import FILE_URL_SCHEME
from deepwork.kernel.database.engine import Engine
from deepwork.kernel.errors import StorageError


def open_engine(location: str) -> Engine:
    """Create the engine for a PostgreSQL URL or a SQLite path; does not connect yet."""
    # Import only the driver that is used: psycopg costs more than the rest of a small command.
    if location.startswith(("postgresql://", "postgres://", f"{FILE_URL_SCHEME}://")):
        return _open_postgres(location)
    from deepwork.kernel.database.sqlite import SQLite  # noqa: PLC0415

    return SQLite(location)


def _open_postgres(url: str) -> Engine:
    try:
        from deepwork.kernel.database.postgres import PostgreSQL  # noqa: PLC0415
    except ImportError as missing:
        # Without a name it is psycopg's own error about a missing libpq.
        if (missing.name or "psycopg").partition(".")[0] not in {"psycopg", "psycopg_pool"}:
            raise
        raise StorageError(
            "The PostgreSQL driver is not installed.",
            suggestion="Install it with: pip install 'deepwork[postgres]'",
        ) from None
    return PostgreSQL(url)
