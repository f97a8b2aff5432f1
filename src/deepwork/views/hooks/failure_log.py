"""Log of hook failures for people to read; agents never see it."""

from __future__ import annotations

import os
import time
from pathlib import Path

FOLDER = "hooks"
"""The folder next to the store in which hooks keep their files."""
MAX_LOG = 64 * 1024
_KEPT_BYTES = MAX_LOG // 2
_MAX_LINE_LENGTH = 400


def get_log_path(store_folder: Path) -> Path:
    """Return the path of the log."""
    return store_folder / FOLDER / "failures.log"


def record_failure(store_folder: Path, doing: str, error: BaseException) -> None:
    """Append a line, dropping the older half of a long log; ignored if the log cannot be written."""
    try:
        path = get_log_path(store_folder)
        if not store_folder.is_dir() or store_folder.is_symlink() or path.parent.is_symlink():
            return  # links can come with a clone and lead anywhere
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _truncate(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, _format_line(doing, error).encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def read_last_failure(store_folder: Path) -> tuple[int, str]:
    """Return the number of logged failures and the newest line; (0, "") if there are none."""
    try:
        lines = get_log_path(store_folder).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0, ""
    return len(lines), lines[-1] if lines else ""


def _format_line(doing: str, error: BaseException) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    what = " ".join(f"{type(error).__name__}: {error}{_format_location(error)}".split())
    return f"{moment} {doing}: {what}"[:_MAX_LINE_LENGTH] + "\n"


def _format_location(error: BaseException) -> str:
    """Format the file and line that raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


def _truncate(path: Path) -> None:
    if not path.exists() or path.stat().st_size <= MAX_LOG:
        return
    kept = path.read_bytes()[-_KEPT_BYTES:].partition(b"\n")[2]
    shorter = path.with_name(f"{path.name}.{os.getpid()}")
    shorter.write_bytes(kept)
    shorter.chmod(0o600)
    shorter.replace(path)
