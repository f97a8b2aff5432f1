"""Descriptions of all tools, prepared by `make docs`, so that a server starts without importing the tools.

They count only while the sources that they were made from are unchanged: in a checkout that is being edited,
descriptions are computed from the code instead.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deepwork.kernel.operations import OperationDeclaration, Preset, Traits, WhenFalse

PACKAGE = Path(__file__).parents[2]
TOOLS_FILE = Path(__file__).with_name("prepared") / "tools.json"
SCHEMAS_FILE = Path(__file__).with_name("prepared") / "schemas.json"

_TUPLES = {"prepared_when", "unlisted"}
"""The traits of a declaration that are tuples, which JSON stores as lists."""


class PreparedTool:
    """The description of one tool. The schemas of all tools are loaded when the first one is needed."""

    __slots__ = ("_data", "_path", "name")

    def __init__(self, path: str, name: str, data: Mapping[str, Any]) -> None:
        self._path, self.name, self._data = path, name, data

    @property
    def declaration(self) -> OperationDeclaration:
        given = dict(self._data["declaration"])
        if "when_false" in given:
            given["when_false"] = WhenFalse(**given["when_false"])
        for name in _TUPLES & given.keys():
            given[name] = tuple(given[name])
        return OperationDeclaration(**given)

    @property
    def description(self) -> str:
        return str(self._data["description"])

    @property
    def ends_in_transaction(self) -> bool:
        return bool(self._data.get("ends_in_transaction"))

    @property
    def shapes(self) -> Mapping[str, Mapping[str, Any]]:
        """The shape of each parameter, for `PlainArguments`."""
        found: Mapping[str, Mapping[str, Any]] = self._data["parameters"]
        return found

    @property
    def input_schema(self) -> dict[str, Any]:
        return dict(self._get_schemas()["input"])

    @property
    def output_schema(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._get_schemas().get("output")
        return found

    def _get_schemas(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = _load_schemas()[self._path][self.name]
        return found


class PreparedClass:
    """The description of one class of tools."""

    def __init__(self, path: str, data: Mapping[str, Any]) -> None:
        self._data = data
        self.tools = [PreparedTool(path, name, each) for name, each in data["tools"].items()]

    @property
    def traits(self) -> Traits:
        given = dict(self._data["traits"])
        presets = {
            verb: Preset(**{**preset, "without": frozenset(preset.get("without", ()))})
            for verb, preset in given.get("presets", {}).items()
        }
        return Traits(**{**given, "presets": presets})


def find_prepared_class(path: str) -> PreparedClass | None:
    """Find the description of the class with this import path; None if it is missing or outdated."""
    data = _load_tools()["classes"].get(path)
    return None if data is None else PreparedClass(path, data)


def compute_checksum() -> int:
    """Compute the checksum of the modules that define tools, their parameters and their answers."""
    checksum = 0
    for module in _list_sources():
        checksum = zlib.crc32(Path(module).read_bytes(), checksum)
    return checksum


_DECLARED = ("tools.py", "actions.py", "operations.py", "responses.py", "_answers.py", "_presets.py")
_NAMED = {"enrollment.py", "inputs.py", "models.py"}


def _list_sources() -> list[str]:
    slices = [
        file.path
        for floor in _list_folders(PACKAGE)
        for folder in _list_folders(floor)
        for file in os.scandir(folder)
        if file.name.endswith(_DECLARED) or file.name in _NAMED
    ]
    shared = ("answers.py", "values.py", "operations.py", "paging.py", "vendors.py")
    own = ("registry.py", "schemas.py", "start_workflow.py", "tool_models.py", "plain_arguments.py")
    return sorted(
        [
            *slices,
            *(f"{PACKAGE}/kernel/{name}" for name in shared),
            *(str(Path(__file__).with_name(name)) for name in own),
        ]
    )


def _list_folders(folder: Path | str) -> list[str]:
    """List folders inside, without the time that `Path.glob` takes."""
    return [each.path for each in os.scandir(folder) if each.is_dir()]


@cache
def _load_tools() -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(TOOLS_FILE.read_bytes())
        return found if found["checksum"] == compute_checksum() else {"classes": {}}
    except FileNotFoundError:  # it is being generated, or the sources are not installed
        return {"classes": {}}


@cache
def _load_schemas() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = json.loads(SCHEMAS_FILE.read_bytes())
    return found
