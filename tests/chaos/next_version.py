"""Builds the next version of deepwork: this one with one more migration, to test real upgrades."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import deepwork
from deepwork.kernel.database import schema

HEAD = f"{int(schema.HEAD) + 1:04}"

_MIGRATION = f'''\
"""What a migration may do: new columns, new tables, old rows changed."""

import sqlalchemy as sa
from alembic import op

revision = "{HEAD}"
down_revision = "{schema.HEAD}"


def upgrade() -> None:
    op.add_column("agents", sa.Column("mood", sa.Text))
    op.execute("UPDATE agents SET mood = 'hopeful'")
    for number in range(5):
        op.create_table(f"tomorrow_{{number}}", sa.Column("id", sa.Text, primary_key=True))
    op.create_index("agents_by_mood", "agents", ["mood"])
'''


def build_next_version(folder: Path) -> Path:
    """Copy the package into a folder and add a migration."""
    package = folder / "deepwork"
    shutil.copytree(Path(deepwork.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    database = package / "kernel" / "database"
    text = (database / "schema.py").read_text()
    assert text.count(f'HEAD = "{schema.HEAD}"') == 1
    (database / "schema.py").write_text(text.replace(f'HEAD = "{schema.HEAD}"', f'HEAD = "{HEAD}"'))
    (database / "migrations" / "versions" / f"{HEAD}_tomorrow.py").write_text(_MIGRATION)
    _write_snapshots(folder)
    return folder


def _write_snapshots(folder: Path) -> None:
    """Regenerate the schema snapshots, as `make schema` does."""
    script = Path(__file__).parents[2] / "scripts" / "schema_snapshots.py"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-P", script], env=environment, check=True)
