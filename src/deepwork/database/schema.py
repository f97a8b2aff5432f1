"""The schema's version, and how a database is brought to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.errors import StorageError

HEAD = "0005"
"""The newest migration; a test holds it to the folder `migrations/versions`."""


def is_behind(version: str | None, name: str) -> bool:
    """Whether migrations are missing; a database from a newer program is refused."""
    if version is not None and version > HEAD:
        raise StorageError(
            f"{name} has schema {version}; this deepwork knows schemas up to {HEAD}.",
            suggestion="Update deepwork on this machine to the version that the others use.",
        )
    return version != HEAD


def migrate(url: str, connection: Any, driver: Any) -> None:
    """Run the missing migrations on an open driver connection, in its one transaction."""
    # Alembic and SQLAlchemy cost most of a second to import: only a new or old database pays for them.
    import sqlalchemy as sa  # noqa: PLC0415
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    engine = sa.create_engine(url, creator=lambda: connection, module=driver, poolclass=sa.pool.StaticPool)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    with engine.begin() as transaction:
        if transaction.dialect.name == "sqlite":
            # Only now: whatever was begun before, SQLAlchemy rolled back when it first saw the connection.
            transaction.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = transaction
        command.upgrade(config, "head")
