"""Reads `.deepwork/config.yml`, which may have come with a clone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.files.plain_yaml import read_plain_mapping
from deepwork.kernel.files.repositories import find_tree_root

_NAME = ".deepwork/config.yml"
_MAX_BYTES = 2**20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a link to a pipe or a terminal must not block


def load_config_file(root: Path) -> dict[str, Any]:
    """Load the settings file of a project; empty if there is none, DefinitionError if it cannot be read."""
    path = root / _NAME
    try:
        text = _read_text(root, path)
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise DefinitionError(
            f"{path.parent} is not a folder.", suggestion="Move it away, then try again."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{_NAME} cannot be read: {error}.") from error
    if (plain := read_plain_mapping(text)) is not None:
        return plain
    # Importing YAML costs as much as the rest of a small command.
    from deepwork.kernel.files.yaml import load_yaml  # noqa: PLC0415

    data = load_yaml(text, source=_NAME).data
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise DefinitionError(f"{_NAME} must be a mapping of settings.")
    return data


def _read_text(root: Path, path: Path) -> str:
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        if path.is_symlink() or path.parent.is_symlink():
            _require_inside(find_tree_root(root) or root, path)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DefinitionError(f"{_NAME} is not a file.", suggestion="Move it away, then try again.")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise DefinitionError(f"{_NAME} is larger than {_MAX_BYTES:,} bytes.")
    return content.decode()


def _require_inside(tree: Path, path: Path) -> None:
    """Refuse a link out of the repository: errors would show parts of a private file of the user."""
    if not path.resolve().is_relative_to(tree.resolve()):
        raise DefinitionError(
            f"{_NAME} is a link out of the repository.", suggestion="Replace the link by a file."
        )
