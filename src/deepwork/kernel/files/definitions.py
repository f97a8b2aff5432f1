"""Finds and reads definition files (job.yml, .deepreview, templates); caches each until a file changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.paths import read_confined
from deepwork.kernel.files.private import FileStamp, are_reliable, find_stamp
from deepwork.kernel.files.problems import FileProblem, InvalidDefinition
from deepwork.kernel.files.yaml import YamlDocument, load_yaml

Definition = TypeVar("Definition")

_MAX_BYTES = 2**20


class FolderEntry(NamedTuple):
    """A file or folder in one of the folders that are searched."""

    rank: int
    """The index of the folder; the lowest takes precedence."""
    name: str
    path: str
    stamp: FileStamp | None = None
    """The stamp of the file to read, if it is known."""


def list_entries(folders: Sequence[Path]) -> tuple[list[FolderEntry], dict[int, str]]:
    """List what these folders contain; also return why folders cannot be listed, by index."""
    entries: list[FolderEntry] = []
    unreadable: dict[int, str] = {}
    for rank, folder in enumerate(folders):
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - creating 500 Path objects is slow
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unreadable[rank] = f"The folder cannot be read: {error.strerror}. Change its permissions."
            continue
        entries += [FolderEntry(rank, name, f"{folder}{os.sep}{name}") for name in names]
    return entries, unreadable


class DefinitionReader:
    """Reads the files of one definition, and detects later whether one of them has changed."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._stamps: dict[str, FileStamp | None] = {}

    def read_document(
        self, root: Path, path: str, source: str, explain: Callable[[InvalidInput], str] = str
    ) -> YamlDocument:
        """Read a YAML file inside `root`; raise InvalidDefinition, which names the file as `source`."""
        try:
            content = self.read(root, path)
            return load_yaml(content.decode("utf-8-sig"), source=source)
        except InvalidInput as error:
            raise InvalidDefinition(FileProblem(source, 1, explain(error))) from error
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            message = "The text is not UTF-8; save the file as UTF-8."
            raise InvalidDefinition(FileProblem(source, line, message)) from error

    def read(self, root: Path, path: str) -> bytes:
        """Read a file inside `root`; the definition is out of date as soon as this file changes."""
        place = str(root / path)
        self._stamps.setdefault(place, find_stamp(place))  # before reading, to notice a change meanwhile
        return read_confined(root, path, max_bytes=_MAX_BYTES)

    def include(self, other: DefinitionReader) -> None:
        """Let the definition also depend on the files that another reader has read."""
        self._stamps = other._stamps | self._stamps

    def is_current(self) -> bool:
        """Return whether reading again would give the same result."""
        return self._is_reliable() and all(find_stamp(place) == was for place, was in self._stamps.items())

    def depends_on_one_file(self) -> bool:
        """Return whether the stamp of one file is enough to detect a change."""
        return len(self._stamps) == 1 and self._is_reliable()

    def _is_reliable(self) -> bool:
        return are_reliable(self._stamps.values(), self._began)


class DefinitionCatalog(Generic[Definition]):
    """Definitions by path; one is read again only after a file that it was read from has changed."""

    def __init__(self, read: Callable[[str, DefinitionReader], Definition]) -> None:
        self._read = read
        self._loaded: dict[str, tuple[Definition, DefinitionReader]] = {}

    def load(self, path: str) -> Definition:
        """Load one definition."""
        return self._load(path)[0]

    def load_all(self, paths: Iterable[str]) -> dict[str, Definition]:
        """Load these definitions, and forget all others."""
        self._loaded = loaded = {path: self._load(path) for path in paths}
        return {path: definition for path, (definition, _) in loaded.items()}

    def depend_on_one_file_each(self) -> bool:
        """Return whether the stamps of the files at the paths are enough to detect a change."""
        return all(reader.depends_on_one_file() for _, reader in list(self._loaded.values()))

    def _load(self, path: str) -> tuple[Definition, DefinitionReader]:
        known = self._loaded.get(path)
        if known is None or not known[1].is_current():
            reader = DefinitionReader()
            known = self._loaded[path] = self._read(path, reader), reader
        return known
