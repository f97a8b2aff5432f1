"""The only place that runs git: limits time and output, and disables programs named by a repository."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.errors import GitError, InvalidInput, NotARepository
from deepwork.kernel.files.repositories import Places, find_tree_root, read_places
from deepwork.kernel.git.safety import DriverFinder, build_safe_environment, get_safe_flags
from deepwork.kernel.programs import OutputTooLarge, ProgramLimits, ProgramResult, run_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepwork.kernel.git.safety import Driver

_HASH_PATTERN = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
MAX_LISTING_BYTES = 256 * 2**20
"""Output limit of our own queries: about a million files."""
_DISK_FULL_MESSAGES = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_NO_REPOSITORY_MESSAGE = "not a git repository"
BAD_LIST_OF_COMMITS = "invalid object name: "
_QUOTED_CONTENT = re.compile(
    f"({BAD_LIST_OF_COMMITS}|bad shallow line: |unexpected line in [^:]*: |object directory |config value "
    r"|Corrupt MERGE_HEAD file |unrecognized pattern: ).*"
)
_QUOTED_ATTRIBUTE = re.compile(r".*( is not a valid attribute name)")
"""Messages in which git quotes a file. A repository can name any file of the user, in a setting or by a link,
so git's errors would show what is in it."""


class Git:
    """Git in one directory.

    The working tree is the nearest folder with a `.git`, whatever the settings of the repository say
    (`core.worktree`, `core.bare`): every command names it and its git directory.

    No argument passes through a shell. But git treats anything that starts with a dash as an option, so put
    user-supplied refs after `--end-of-options`, and paths after `--`:

        git.run("diff", "-z", "--name-status", "--end-of-options", ref, "--", path)

    Paths after `--` are patterns; for literal names add `env={"GIT_LITERAL_PATHSPECS": "1"}`. Output is
    bytes, since names need not be UTF-8; request names with `-z`.
    """

    def __init__(
        self,
        root: Path,
        *,
        environment: Mapping[str, str],
        program: str = "git",
        timeout: float = 30.0,
        max_output: int = 10 * 2**20,
    ) -> None:
        self.root = root.resolve()
        self._environment = environment
        self._program = program
        self._timeout, self._max_output = timeout, max_output
        self._bounds = ProgramLimits(timeout, max_output)
        self._query_bounds = ProgramLimits(timeout, MAX_LISTING_BYTES)
        self._drivers = DriverFinder(self._query, environment.get("HOME", ""))

    @property
    def home(self) -> Path | None:
        """The user's home folder, if the environment names it."""
        home = self._environment.get("HOME")
        return Path(home) if home else None

    def at(self, root: Path, *, max_output: int | None = None) -> Git:
        """Return the same git in another directory, optionally with a larger output limit."""
        return Git(
            root,
            environment=self._environment,
            program=self._program,
            timeout=self._timeout,
            max_output=max_output or self._max_output,
        )

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok_codes: Sequence[int] = (0,),
    ) -> bytes:
        """Run a command and return its stdout; raises GitError for an exit code not in `ok_codes`."""
        env = env or {}
        command, *rest = args
        tree, drivers = self._look_around(env)
        finished = self._run_bounded(
            command, (*get_safe_flags(command), *rest), drivers, env=env, input=input, tree=tree
        )
        return self._require_success(command, finished, ok_codes)

    def find_places(self) -> Places:
        """Return where the working tree and its repository are; raises if there is none."""
        top = self._find_top()
        return self._ask_places() if top is None else read_places(top)

    def find_path(self, name: str) -> Path:
        """Return where a file of the repository is, such as `index` or `info/exclude`."""
        return self.find_places().find(name)

    def is_bare(self, places: Places) -> bool:
        """Return whether the settings of a repository say that it has no working tree of its own."""
        return self._drivers.read_settings(places).is_bare

    def is_repository(self) -> bool:
        """Return whether the directory is in a repository; raises if its settings cannot be read."""
        top = self._find_top()
        if top is not None and (places := read_places(top)).is_complete():
            self._drivers.read_settings(places)
            return True
        try:
            self._query("rev-parse", "--git-dir", env={}, tree=_name_tree(top))
        except NotARepository:
            return False
        return True

    def is_installed(self) -> bool:
        """Return whether the git program is on the PATH."""
        return self._find_executable() is not None

    def get_version(self) -> str:
        """Return the version of git, for instance "2.39.5"."""
        words = (
            self._require_success("version", self._run_bounded("version", []), (0,))
            .decode(errors="replace")
            .split()
        )
        if words[:2] != ["git", "version"] or len(words) < 3:
            raise GitError(f"{self._program} does not report its version; is it git?")
        return words[2]

    def _look_around(self, env: Mapping[str, str]) -> tuple[Sequence[str], Sequence[Driver]]:
        """Return the options that name the working tree, and every driver that a command could run."""
        top = self._find_top()
        places = None if top is None and "GIT_DIR" in env else self._find_own_places(top)
        if places is None:
            return (), ()
        settings = self._drivers.read_settings(places)
        index = self.root / (env.get("GIT_INDEX_FILE") or places.find("index"))
        drivers = sorted(settings.drivers | self._drivers.list_nested(places, index))
        is_bare = top is not None and settings.is_bare and (top / ".git").is_dir()  # beside its worktrees
        return () if is_bare or "GIT_DIR" in env else _name_tree(top), drivers

    def _find_own_places(self, top: Path | None) -> Places | None:
        if top is not None:
            return read_places(top)
        try:
            return self._ask_places()
        except NotARepository:
            return None

    def _find_top(self) -> Path | None:
        """Return the working tree; None if git has to find out, as outside of one or inside `.git`."""
        top = find_tree_root(self.root)
        return None if top is None or self.root.is_relative_to(top / ".git") else top

    def _ask_places(self) -> Places:
        git_dir, common = self._ask_path("--absolute-git-dir"), self._ask_path("--git-common-dir")
        return Places(self.root, git_dir, common)

    def _ask_path(self, question: str) -> Path:
        # One query per call: a path may contain the character that separates two answers.
        answer = self._query("rev-parse", "--path-format=absolute", question, env={})
        return Path(os.fsdecode(answer.removesuffix(b"\n")))

    def _query(
        self,
        command: str,
        /,
        *args: str,
        env: Mapping[str, str],
        input: bytes | None = None,
        tree: Sequence[str] = (),
    ) -> bytes:
        finished = self._run_bounded(
            command, args, env=env, input=input, tree=tree, bounds=self._query_bounds
        )
        return self._require_success(command, finished, (0,))

    def _run_bounded(
        self,
        command: str,
        args: Sequence[str],
        drivers: Sequence[Driver] = (),
        *,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        tree: Sequence[str] = (),
        bounds: ProgramLimits | None = None,
    ) -> ProgramResult:
        bounds, env = bounds or self._bounds, env or {}
        argv = [self._executable, *tree, command, *args]
        safe_env = build_safe_environment(self._environment, env, self.root, command, drivers)
        try:
            return run_bounded(argv, cwd=self.root, env=safe_env, input=input, bounds=bounds)
        except TimeoutError:
            raise GitError(f"git {command} took longer than {bounds.seconds:g} s and was killed.") from None
        except OutputTooLarge:
            raise GitError(f"git {command} wrote more than {bounds.output:,} bytes and was killed.") from None
        except (OSError, ValueError) as error:
            raise GitError(f"git {command} cannot be started in {self.root}: {error}.") from error

    def _require_success(self, command: str, finished: ProgramResult, ok_codes: Sequence[int]) -> bytes:
        if finished.code not in ok_codes:
            raise self._build_error(command, finished)
        return finished.stdout

    @cached_property
    def _executable(self) -> str:
        found = self._find_executable()
        if found is None:
            raise GitError(
                f"The program {self._program!r} was not found.",
                suggestion="Install git 2.31 or newer and make sure it is on the PATH.",
            )
        return found

    def _find_executable(self) -> str | None:
        return shutil.which(self._program, path=self._environment.get("PATH", ""))

    def _build_error(self, command: str, finished: ProgramResult) -> GitError:
        said = _format_output(finished.stderr)
        if _NO_REPOSITORY_MESSAGE in said:
            return NotARepository(f"{self.root} is not a git repository.")
        if any(text in said for text in _DISK_FULL_MESSAGES):
            return GitError(
                f"git {command} failed, because the disk is full: {said}",
                suggestion="Free some space, then call again; `deepwork doctor` says on which disk.",
            )
        return GitError(f"git {command} failed with code {finished.code}: {said or 'it gave no reason'}")


def _name_tree(top: Path | None) -> tuple[str, ...]:
    return () if top is None else (f"--git-dir={top}/.git", f"--work-tree={top}")


def check_hash(value: str) -> str:
    """Return the value if it is a full object hash; raises InvalidInput otherwise."""
    if not is_hash(value):
        raise InvalidInput(f"{value[:100]!a} is not the full hash of a commit or tree.")
    return value


def is_hash(name: str) -> bool:
    """Return whether this is the full hash of an object."""
    return _HASH_PATTERN.fullmatch(name) is not None


def _format_output(output: bytes) -> str:
    """Return the start of git's output, with unprintable characters replaced for terminals and logs."""
    lines = output[:1000].decode(errors="replace").strip().splitlines()
    hidden = (_QUOTED_ATTRIBUTE.sub(r"…\1", _QUOTED_CONTENT.sub(r"\1…", line)) for line in lines)
    return "".join(character if character.isprintable() else " " for character in " ".join(hidden))


@contextmanager
def require_version(git: Git, version: str, purpose: str) -> Iterator[None]:
    """Replace an error of the block by a clear one if git is too old; checks the version only on error."""
    try:
        yield
    except GitError as error:
        found = git.get_version()
        if _parse_version(found) >= _parse_version(version):
            raise
        raise GitError(
            f"{purpose} needs git {version} or newer; this is git {found}.",
            suggestion=f"Install git {version} or newer and make sure it is on the PATH.",
        ) from error


def _parse_version(version: str) -> tuple[int, ...]:
    """Return the first two numbers; the rest of the format differs between vendors."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
