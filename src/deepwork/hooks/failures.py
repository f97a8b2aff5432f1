"""What went wrong in hooks, for a person: the agent must not be troubled with it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from deepwork.hooks.memory import FOLDER

MAX_LOG = 64 * 1024
_KEPT = MAX_LOG // 2
_MAX_LINE = 400


def log_file(store_folder: Path) -> Path:
    """Where it is written."""
    return store_folder / FOLDER / "failures.log"


def note(store_folder: Path, doing: str, error: BaseException) -> None:
    """Add a line; of a long log the older half goes. Where nothing can be written, nothing is."""
    try:
        path = log_file(store_folder)
        if not store_folder.is_dir():
            return
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _shorten(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, _line(doing, error).encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def last(store_folder: Path) -> tuple[int, str]:
    """How many failures the log holds, and the newest; ("", 0) where there is none."""
    try:
        lines = log_file(store_folder).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0, ""
    return len(lines), lines[-1] if lines else ""


def _line(doing: str, error: BaseException) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    what = " ".join(f"{type(error).__name__}: {error}{_place(error)}".split())
    return f"{moment} {doing}: {what}"[:_MAX_LINE] + "\n"


def _place(error: BaseException) -> str:
    """Where in our own code it happened."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


def _shorten(path: Path) -> None:
    if not path.exists() or path.stat().st_size <= MAX_LOG:
        return
    kept = path.read_bytes()[-_KEPT:].partition(b"\n")[2]
    shorter = path.with_name(f"{path.name}.{os.getpid()}")
    shorter.write_bytes(kept)
    shorter.chmod(0o600)
    shorter.replace(path)
