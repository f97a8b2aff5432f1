"""Files exactly as they are or as a commit has them, byte for byte.

Git would convert line endings, and filters are disabled: here every byte counts, so neither takes part.

Git does not compare the hashes of the files that a commit has: somebody who writes to the repository can
store another file under the same hash.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git, check_hash
from deepwork.kernel.git.refs import FOLDER_MODE, IDENTITY, compute_hash, find_algorithm
from deepwork.kernel.git.snapshot_types import SUBMODULE_MODE, TreeFile

_LINK, _PROGRAM, _PLAIN = "120000", "100755", "100644"
_MAX_BATCH_BYTES = 64 * 2**20
_READ_BYTES = 2**20


def store_files(git: Git, paths: Sequence[str]) -> dict[str, TreeFile]:
    """Store files of the tree at `git.root` as blobs, exactly as they are; those missing are left out."""
    modes = {path: mode for path in paths if (mode := find_mode(git.root / path))}
    regular = [path for path, mode in modes.items() if mode != _LINK]
    lines = [path for path in regular if "\n" not in path]  # git separates names by line breaks here
    listed = b"".join(os.fsencode(path) + b"\n" for path in lines)
    flags = ("hash-object", "-w", "--no-filters")
    output = git.run(*flags, "--stdin-paths", input=listed).decode().split() if lines else []
    blobs = dict(zip(lines, output, strict=True))
    for path in modes.keys() - blobs.keys():
        if modes[path] == _LINK:
            target = _read_link(git.root / path)
            blobs[path] = git.run(*flags, "--stdin", input=target).decode().strip()
        else:
            blobs[path] = git.run(*flags, "--", path).decode().strip()
    return {path: TreeFile(modes[path], check_hash(blobs[path]), path) for path in sorted(modes)}


def write_commit(git: Git, files: Sequence[TreeFile], parents: Sequence[str], message: str) -> str:
    """Create a commit with exactly these files; no branch refers to it."""
    with TemporaryDirectory(prefix="deepwork-index-") as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        entries = b"".join(
            f"{file.mode} {file.blob}\t".encode() + os.fsencode(file.path) + b"\0" for file in files
        )
        git.run("update-index", "-z", "--index-info", input=entries, env=env)
        tree = check_hash(git.run("write-tree", env=env).decode().strip())
    return commit_tree(git, tree, parents, message)


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """Create a commit of a stored tree; no branch refers to it."""
    flags = [flag for parent in parents for flag in ("-p", parent)]
    return check_hash(git.run("commit-tree", *flags, "-m", message, tree, env=IDENTITY).decode().strip())


def list_commit_files(git: Git, commit: str) -> dict[str, TreeFile]:
    """List the files of a commit by path."""
    output = git.at(git.root, max_output=MAX_LISTING_BYTES).run(
        "ls-tree", "-r", "-z", "--full-tree", check_hash(commit)
    )
    found = {}
    for entry in os.fsdecode(output).split("\0")[:-1]:
        about, _, path = entry.partition("\t")
        mode, _, blob = about.split(" ")
        found[path] = TreeFile(mode, blob, path)
    return found


def write_files(git: Git, files: Sequence[TreeFile], folder: Path) -> None:
    """Write stored files below an empty folder, exactly as they were."""
    wide = git.at(git.root, max_output=2 * MAX_LISTING_BYTES)
    for some in _batch_by_size(wide, files):
        output = wide.run("cat-file", "--batch", input="".join(f"{file.blob}\n" for file in some).encode())
        for file, content in zip(some, _split_batch(output), strict=True):
            _write_file(folder / file.path, file.mode, content)


def read_exactly(git: Git, files: Sequence[TreeFile]) -> Iterator[tuple[TreeFile, bytes]]:
    """Yield stored files with their content; raises GitError if it is not what their hash says."""
    wide = git.at(git.root, max_output=2 * MAX_LISTING_BYTES)
    for some in _batch_by_size(wide, files):
        output = wide.run("cat-file", "--batch", input="".join(f"{file.blob}\n" for file in some).encode())
        for file, content in zip(some, _split_batch(output), strict=True):
            if compute_hash("blob", content, find_algorithm(file.blob)) != file.blob:
                raise GitError(
                    f"The repository is damaged: {file.path!a} has another content than its hash"
                    f" {file.blob[:12]} says.",
                    suggestion="Look at it with `git fsck`.",
                )
            yield file, content


def require_contents(git: Git, files: Sequence[TreeFile]) -> None:
    """Raise GitError unless the contents of these stored files are what their hashes say."""
    by_blob = {file.blob: file for file in files if file.mode != SUBMODULE_MODE}
    for _ in read_exactly(git, list(by_blob.values())):
        pass


def find_mode(path: Path) -> str | None:
    """Return git's mode of a file or link; None if there is neither."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return _LINK
    if not stat.S_ISREG(status.st_mode):
        return None
    return _PROGRAM if status.st_mode & stat.S_IXUSR else _PLAIN


def hash_exactly(path: Path, like: str) -> str | None:
    """Return the hash that git has for these bytes, by the algorithm of another hash.

    None without a file, or if it cannot be read, as the files of a store that is open.
    """
    mode = find_mode(path)
    if mode is None:
        return None
    digest = hashlib.new(find_algorithm(like))
    try:
        if mode == _LINK:
            target = _read_link(path)
            digest.update(b"blob %d\0%b" % (len(target), target))
            return digest.hexdigest()
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            digest.update(b"blob %d\0" % status.st_size)
            while part := file.read(_READ_BYTES):
                digest.update(part)
    except OSError:
        return None
    return digest.hexdigest() if stat.S_ISREG(status.st_mode) else None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open what was a regular file a moment ago: a pipe or a link may have taken its place."""
    return open_unlocked(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


class GitRun(Protocol):
    """Runs git in a working tree."""

    def run(self, *args: str, input: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes: ...


def hash_files(
    git: GitRun, paths: Sequence[str], *, flags: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Map files to the hashes that git gives them."""
    plain = [path for path in paths if "\n" not in path]  # git separates names by line breaks here
    listed = b"".join(os.fsencode(path) + b"\n" for path in plain)
    output = git.run("hash-object", *flags, "--stdin-paths", input=listed, env=env) if plain else b""
    hashes = dict(zip(plain, output.decode().split(), strict=True))
    for path in paths:
        if path not in hashes:
            hashes[path] = git.run("hash-object", *flags, "--", path, env=env).decode().strip()
    return hashes


def _read_link(path: Path) -> bytes:
    return os.fsencode(os.readlink(path))  # noqa: PTH115 - Path would normalize the target


def _batch_by_size(git: Git, files: Sequence[TreeFile]) -> Iterator[list[TreeFile]]:
    question = "".join(f"{file.blob}\n" for file in files).encode()
    answer = git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", input=question).decode()
    some: list[TreeFile] = []
    size = 0
    for file, line in zip(files, answer.splitlines(), strict=True):
        kind, _, length = line.partition(" ")
        if kind != "blob":
            raise GitError(f"The repository has lost a version of {file.path!r}.")
        if some and size + int(length) > _MAX_BATCH_BYTES:
            yield some
            some, size = [], 0
        some.append(file)
        size += int(length)
    if some:
        yield some


def _split_batch(output: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(output):
        end = output.index(b"\n", place)
        length = int(output[place:end].split(b" ")[2])
        yield output[end + 1 : end + 1 + length]
        place = end + length + 2


def _write_file(path: Path, mode: str, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        path.symlink_to(os.fsdecode(content))
        return
    with path.open("xb") as file:
        file.write(content)
        if mode == _PROGRAM:
            os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) | 0o111)


def to_versions(files: Iterable[TreeFile]) -> dict[str, str]:
    """Return the mode and the blob of each file, as changes between snapshots have them."""
    return {file.path: f"{file.mode} {file.blob}" for file in files}


_MAX_BYTES = 2**20


class TreeEntry(NamedTuple):
    """What a folder of a commit has under a name."""

    mode: str
    hash: str

    @property
    def kind(self) -> str:
        return "tree" if self.mode == FOLDER_MODE else "blob"


def read_committed_file(git: Git, commit: str, path: str) -> bytes | None:
    """Return the content of a regular file in a commit; None if there is none.

    Raises GitError if the repository has other objects than their hashes say.
    """
    found = _find(git, commit, path)
    if found is None:
        return None
    entry, content = found
    if not entry.mode.startswith("100"):
        raise InvalidInput(
            f"{path} at {commit[:12]} is not a regular file.", suggestion="Commit it as a file."
        )
    if len(content) > _MAX_BYTES:
        raise InvalidInput(f"{path} at {commit[:12]} is larger than {_MAX_BYTES:,} bytes.")
    return content


def list_committed_folders(git: Git, commit: str, path: str) -> list[str]:
    """List the paths of the folders in a folder of a commit."""
    found = _find(git, commit, path)
    if found is None or found[0].kind != "tree":
        return []
    entries = parse_tree(found[1], len(commit) // 2)
    return [f"{path}/{name}" for name, entry in entries if entry.kind == "tree"]


def _find(git: Git, commit: str, path: str) -> tuple[TreeEntry, bytes] | None:
    """Walk from the commit to a path; return what is there, None if there is nothing."""
    names = PurePosixPath(path).parts
    places = ["/".join(names[:depth]) for depth in range(len(names) + 1)]
    objects = read_objects(git, [check_hash(commit), *(f"{commit}:{place}" for place in places)])
    about = require_exact("commit", commit, next(objects)).partition(b"\n")[0]
    entry = TreeEntry(FOLDER_MODE, about.removeprefix(b"tree ").decode())
    content = require_exact(entry.kind, entry.hash, next(objects))
    for name in names:
        below = dict(parse_tree(content, len(commit) // 2)).get(name) if entry.kind == "tree" else None
        if below is None or below.mode == SUBMODULE_MODE:
            return None
        entry, content = below, require_exact(below.kind, below.hash, next(objects))
    return entry, content


def read_objects(git: Git, names: Sequence[str]) -> Iterator[bytes | None]:
    """Yield the content of these objects, such as `COMMIT:FOLDER`; None for what git does not find."""
    questions = "".join(f"{each}\n" for each in names)
    if questions.count("\n") != len(names):
        raise GitError(f"A path with a line break cannot be read from a commit: {questions[:200]!a}.")
    answer, start = git.run("cat-file", "--batch", input=os.fsencode(questions)), 0
    while start < len(answer):
        end = answer.index(b"\n", start)
        words = answer[start:end].split(b" ")
        size = int(words[2]) if len(words) == 3 and words[2].isdigit() else None
        start = end + 1 if size is None else end + size + 2
        yield None if size is None else answer[end + 1 : end + 1 + size]


def parse_tree(content: bytes, hash_bytes: int) -> Iterator[tuple[str, TreeEntry]]:
    """Yield the names in a folder, by the content of its object."""
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + hash_bytes
        yield os.fsdecode(name), TreeEntry(mode.decode(), content[end + 1 : start].hex())


def require_exact(kind: str, hash: str, content: bytes | None) -> bytes:
    """Return the content of an object; raises GitError if its hash says otherwise."""
    if content is None or compute_hash(kind, content, find_algorithm(hash)) != hash:
        raise GitError(
            f"The repository is damaged: {kind} {hash[:12]} has another content than its hash says.",
            suggestion="Look at it with `git fsck`.",
        )
    return content
