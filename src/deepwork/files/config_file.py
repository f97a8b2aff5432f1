"""Reads `.deepwork/config.yml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.errors import DefinitionError

_NAME = ".deepwork/config.yml"


def load_config_file(root: Path) -> dict[str, Any]:
    """Load the settings file of a project; empty if there is none, DefinitionError if it cannot be read."""
    path = root / _NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise DefinitionError(
            f"{path.parent} is not a folder.", suggestion="Move it away, then try again."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{_NAME} cannot be read: {error}.") from error
    # Importing YAML costs as much as the rest of a small command, so only if there is a file.
    from deepwork.files.yaml import load_yaml  # noqa: PLC0415

    data = load_yaml(text, source=_NAME).data
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise DefinitionError(f"{_NAME} must be a mapping of settings.")
    return data
