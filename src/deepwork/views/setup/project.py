"""Initialises a project: settings file, and optionally an example job and example review rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.config_options import OPTIONS, Option
from deepwork.kernel.database.existing_store import read_existing_store
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.config_file import load_config_file
from deepwork.kernel.files.paths import confine
from deepwork.kernel.files.private import make_state_folder, to_storage_error, write_atomically
from deepwork.kernel.records import dataclass

EXAMPLE_JOB = "release_notes"
_STORE_WAIT_SECONDS = 1.0
_CONFIG_HEADER = """\
# deepwork settings for this project. Flags and DEEPWORK_... variables override them.
# Commented settings show the defaults: remove the `#` to change one.
version: "1.0"
"""


@dataclass(frozen=True)
class InitResult:
    """Files that were written, and files that existed and were left alone."""

    written: list[str]
    kept: list[str]


def init_project(root: Path, *, example_job: bool = False, example_review: bool = False) -> InitResult:
    """Write the files a project needs; existing files stay unchanged."""
    state = root / STATE_FOLDER
    ignore = state / ".gitignore"
    result = InitResult([], [])
    _record_file(result, root, ignore, is_new=not ignore.exists())
    make_state_folder(state)
    _write_file(result, root, state / "config.yml", render_config())
    examples = files("deepwork.views.setup") / "examples"
    if example_job:
        _write_job(result, root, state / "jobs" / EXAMPLE_JOB, examples / EXAMPLE_JOB)
    if example_review:
        _write_file(
            result, root, root / ".deepreview", (examples / "deepreview.yml").read_text(encoding="utf-8")
        )
    return result


def has_only_plans(settings: Settings) -> bool:
    """Return whether a project has plans and nothing else, and its settings choose no toolsets."""
    is_shared = "://" in settings.database_location or settings.global_store
    if is_shared or settings.toolsets != ("all",) or "toolsets" in load_config_file(settings.project_root):
        return False
    if (settings.state_folder / "jobs").is_dir():
        return False
    try:
        return bool(read_existing_store(settings.database_location, _STORE_WAIT_SECONDS, _holds_only_plans))
    except DeepworkError:  # of another version, or in use: `deepwork doctor` explains it
        return False


def _holds_only_plans(tx: Transaction) -> bool:
    sql = """
        SELECT EXISTS (SELECT 1 FROM plans) AS plans, EXISTS (SELECT 1 FROM job_sessions) AS jobs,
               EXISTS (SELECT 1 FROM tracked_workflows) AS tracks
    """
    found = tx.fetch_one(sql)
    return found is not None and bool(found["plans"]) and not (found["jobs"] or found["tracks"])


def render_config() -> str:
    """Render config.yml: every project setting as a comment with its help and default."""
    return "\n".join([_CONFIG_HEADER, *_render_settings([option for option in OPTIONS if option.in_file])])


def _render_settings(options: Sequence[Option]) -> Iterator[str]:
    """Render plain settings first, then those grouped under a common key."""
    plain = [option for option in options if len(option.file_key) < 2]
    grouped = [option for option in options if len(option.file_key) == 2]
    for option in plain:
        yield f"# {option.help} ({option.allowed})\n# {option.key}: {_format_default(option)}\n"
    for group in dict.fromkeys(option.file_key[0] for option in grouped):
        yield f"# {group}:"
        for option in grouped:
            if option.file_key[0] == group:
                default = _format_default(option)
                yield f"#   {option.file_key[1]}: {default}  # {option.help} ({option.allowed})"
        yield ""


def _format_default(option: Option) -> str:
    """Format a setting's default as YAML."""
    usual: Any = getattr(Settings(project_root=Path()), option.name)
    if option.key == "platforms":
        return f"[{usual}]"
    if isinstance(usual, tuple):
        return f"[{', '.join(usual)}]"
    if isinstance(usual, bool):
        return str(usual).lower()
    return str(usual) or '""'


def _write_job(result: InitResult, root: Path, folder: Path, example: Traversable) -> None:
    """Write the whole example job or nothing: half of it would be a broken job."""
    if folder.exists():
        _record_file(result, root, folder, is_new=False)
        return
    for step in sorted((example / "steps").iterdir(), key=lambda file: file.name):
        _write_file(result, root, folder / "steps" / step.name, step.read_text(encoding="utf-8"))
    _write_file(result, root, folder / "job.yml", (example / "job.yml").read_text(encoding="utf-8"))


def _write_file(result: InitResult, root: Path, path: Path, text: str) -> None:
    is_new = not path.exists() and not path.is_symlink()
    _record_file(result, root, path, is_new=is_new)
    if not is_new:
        return
    confine(root, str(path.relative_to(root)), must_exist=False)  # a clone may have brought a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise to_storage_error("make", path.parent, error) from error
    write_atomically(path, text.encode(), mode=0o644)


def _record_file(result: InitResult, root: Path, path: Path, *, is_new: bool) -> None:
    (result.written if is_new else result.kept).append(str(path.relative_to(root)))
