"""Which schema a store has, and whether its file system can hold it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from deepwork.kernel.errors import StorageError

HEAD = "0028"
"""The newest migration; a test compares it with the folder `migrations/versions`."""
MARKED_SINCE = "0011"
"""From this version on, a SQLite store has the mark of its user; deepwork 0.1 made none."""
SEALED_SINCE = "0020"
"""From this version on, all rows that let work pass have seals, and the mark of a SQLite store says so."""
MIGRATIONS = Path(__file__).parent / "migrations"


def is_behind(version: str | None, name: str) -> bool:
    """Return whether migrations are missing; raises if the schema is newer than this program."""
    if version is not None and version > HEAD:
        raise StorageError(
            f"{name} has schema {version}; this version of deepwork supports schemas up to {HEAD}.",
            suggestion="Update deepwork on this machine to the version that the others use.",
        )
    return version != HEAD


def get_snapshot_path(dialect: str) -> Path:
    return MIGRATIONS / f"{dialect}.sql"


def read_snapshot(dialect: str) -> str:
    """Return the SQL that creates a new store as all migrations would, without importing Alembic."""
    return get_snapshot_path(dialect).read_text(encoding="utf-8")


def migrate(url: str, connection: Any, driver: Any) -> None:
    """Run the missing migrations on an open driver connection, in its one transaction."""
    # Alembic and SQLAlchemy cost most of a second to import: only an old database pays for them.
    import sqlalchemy as sa  # noqa: PLC0415
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    engine = sa.create_engine(url, creator=lambda: connection, module=driver, poolclass=sa.pool.StaticPool)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.begin() as transaction:
        if transaction.dialect.name == "sqlite":
            # Not earlier: SQLAlchemy rolls back open transactions when it first uses the connection.
            transaction.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = transaction
        command.upgrade(config, "head")


_NETWORK_FILE_SYSTEM_PATTERN = re.compile(
    r"^(nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|beegfs|ocfs2|gfs2?|gpfs|virtiofs|vboxsf|juicefs"
    r"|fuse\.(sshfs|s3fs|rclone|glusterfs|gcsfuse|curlftpfs|davfs\w*|ceph\w*|juicefs))$"
)


def find_network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the network file system that holds the path; None for a local one."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:  # not Linux: no list of mounts
            return None
    kind = _find_mount_type(path.parent.resolve(), mounts)
    return kind if kind and _NETWORK_FILE_SYSTEM_PATTERN.match(kind) else None


def _find_mount_type(folder: Path, mounts: str) -> str | None:
    longest, kind = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].replace("\\040", " "))
        # The longest mount point wins; of equal ones, the later hides the earlier.
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split(" ")[0]
    return kind
