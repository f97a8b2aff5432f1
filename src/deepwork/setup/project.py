"""How a project begins: its settings, and examples of a job and of review rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from deepwork.config import OPTIONS, STATE_FOLDER, Option, Settings
from deepwork.files.atomic import write_atomically
from deepwork.files.failures import storage_failure
from deepwork.files.state import make_state_folder

EXAMPLE_JOB = "release_notes"
_HEAD = """\
# Settings of deepwork for this project. Flags and DEEPWORK_... variables win over them.
# What stands behind `#` is the default: take the `#` away to change it.
version: "1.0"
"""


@dataclass(frozen=True)
class Beginning:
    """What was written, and what was there already and left alone."""

    written: list[str]
    kept: list[str]


def begin(root: Path, *, example_job: bool = False, example_review: bool = False) -> Beginning:
    """Write what a project needs; whatever is there stays as it is."""
    state = root / STATE_FOLDER
    ignore = state / ".gitignore"
    made = Beginning([], [])
    _note(made, root, ignore, is_new=not ignore.exists())
    make_state_folder(state)
    _write(made, root, state / "config.yml", config_text())
    examples = files("deepwork.setup") / "examples"
    if example_job:
        _write_job(made, root, state / "jobs" / EXAMPLE_JOB, examples / EXAMPLE_JOB)
    if example_review:
        _write(made, root, root / ".deepreview", (examples / "deepreview.yml").read_text(encoding="utf-8"))
    return made


def config_text() -> str:
    """The settings that a project's file may set, each with what it does and its default."""
    return "\n".join([_HEAD, *_settings([option for option in OPTIONS if option.in_file]), ""])


def _settings(options: Sequence[Option]) -> Iterator[str]:
    """Plain settings first, then those that stand below a common word."""
    plain = [option for option in options if len(option.file_key) < 2]
    grouped = [option for option in options if len(option.file_key) == 2]
    for option in plain:
        yield f"# {option.help} ({option.allowed})\n# {option.key}: {_default(option)}\n"
    for group in dict.fromkeys(option.file_key[0] for option in grouped):
        yield f"# {group}:"
        for option in grouped:
            if option.file_key[0] == group:
                yield f"#   {option.file_key[1]}: {_default(option)}  # {option.help} ({option.allowed})"


def _default(option: Option) -> str:
    """What a setting is when nobody sets it, as YAML."""
    usual: Any = getattr(Settings(project_root=Path()), option.name)
    if option.key == "platforms":
        return f"[{usual}]"
    if isinstance(usual, tuple):
        return f"[{', '.join(usual)}]"
    if isinstance(usual, bool):
        return str(usual).lower()
    return str(usual) or '""'


def _write_job(made: Beginning, root: Path, folder: Path, example: Traversable) -> None:
    """The whole job, or nothing of it: half an example would be a broken job."""
    if folder.exists():
        _note(made, root, folder, is_new=False)
        return
    for step in sorted((example / "steps").iterdir(), key=lambda file: file.name):
        _write(made, root, folder / "steps" / step.name, step.read_text(encoding="utf-8"))
    _write(made, root, folder / "job.yml", (example / "job.yml").read_text(encoding="utf-8"))


def _write(made: Beginning, root: Path, path: Path, text: str) -> None:
    is_new = not path.exists() and not path.is_symlink()
    _note(made, root, path, is_new=is_new)
    if not is_new:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_failure("make", path.parent, error) from error
    write_atomically(path, text.encode(), mode=0o644)


def _note(made: Beginning, root: Path, path: Path, *, is_new: bool) -> None:
    (made.written if is_new else made.kept).append(str(path.relative_to(root)))
