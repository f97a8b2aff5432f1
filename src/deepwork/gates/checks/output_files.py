"""The output of checks, as files of this user in the state folder."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from pathlib import Path

from deepwork.kernel.files.atomic import write_atomically
from deepwork.kernel.files.private import make_private_folder, read_private_file

_RETENTION_SECONDS = 30 * 24 * 3600
_NAME_PATTERN = re.compile(r"pf_[0-9a-z]{12}\.log")


class OutputFiles:
    """Writes, reads and removes outputs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, proof_id: str, output: bytes) -> tuple[Path, str]:
        """Write the output of a run; return its file and digest. Removes files that are a month old."""
        make_private_folder(self._folder)
        self._remove_old()
        path = self._folder / f"{proof_id}.log"
        write_atomically(path, output, is_durable=False)
        return path, sha256(output).hexdigest()

    def read(self, name: str | None) -> bytes | None:
        """Return the output with this file name; None if it was removed."""
        if name is None or not _NAME_PATTERN.fullmatch(name):
            return None
        return read_private_file(self._folder / name)

    def _remove_old(self) -> None:
        oldest = time.time() - _RETENTION_SECONDS
        for path in self._folder.iterdir():
            if _is_older(path, oldest):
                path.unlink(missing_ok=True)


def _is_older(path: Path, moment: float) -> bool:
    try:
        return path.lstat().st_mtime < moment
    except FileNotFoundError:
        return False
