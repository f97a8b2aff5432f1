"""The one door to git: bounded in time and output, deaf to what a repository's settings would have it run."""

from __future__ import annotations

import re
import shutil
from functools import cached_property
from typing import TYPE_CHECKING

from deepwork.errors import GitError, InvalidInput, NotARepository
from deepwork.git.drivers import Drivers
from deepwork.git.safety import SAFE_DIFF, safe_environment, safe_flags, safe_options
from deepwork.programs import Bounds, Finished, OutputTooLarge, run_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from deepwork.git.drivers import Driver

__all__ = ["SAFE_DIFF", "Git", "check_hash"]

_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_LONGEST_LISTING = 256 * 2**20  # of our own questions: a million files
_NO_REPOSITORY = "not a git repository"


class Git:
    """Git in one directory.

    No argument here passes through a shell. But git itself takes what starts with a dash for an option, so
    refs that users name go after `--end-of-options`, and paths after `--`:

        git.run("diff", *SAFE_DIFF, "--name-status", "--end-of-options", ref, "--", path)

    Paths after `--` are patterns; for plain names add `env={"GIT_LITERAL_PATHSPECS": "1"}`. Results come as
    bytes, since names need not be UTF-8; ask for them with `-z`.
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
        self._bounds = Bounds(timeout, max_output)
        self._own_bounds = Bounds(timeout, _LONGEST_LISTING)
        self._drivers = Drivers(self._ask, self.root, environment.get("HOME", ""))

    def at(self, root: Path, *, max_output: int | None = None) -> Git:
        """The same git in another directory, or with more to say."""
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
        """What the command writes to its output; a GitError if it ends with any other code."""
        env = env or {}
        command, *rest = args
        drivers = self._drivers.find(env)
        finished = self._finish(command, (*safe_flags(command), *rest), drivers, env=env, input=input)
        return self._output(command, finished, ok_codes)

    def is_repository(self) -> bool:
        """Whether the directory belongs to a repository; one that git refuses to enter is an error."""
        return self._ask("rev-parse", "--git-dir", env={}) != b""

    def is_installed(self) -> bool:
        """Whether there is such a program at all."""
        return self._found() is not None

    def version(self) -> str:
        """For instance 2.39.5."""
        words = self._output("version", self._finish("version", []), (0,)).decode(errors="replace").split()
        if words[:2] != ["git", "version"] or len(words) < 3:
            raise GitError(f"{self._program} does not tell its version: is it git?")
        return words[2]

    def _ask(self, command: str, /, *args: str, env: Mapping[str, str]) -> bytes:
        finished = self._finish(command, args, env=env, bounds=self._own_bounds)
        if finished.code and _NO_REPOSITORY in _text(finished.stderr):
            return b""
        return self._output(command, finished, (0,))

    def _finish(
        self,
        command: str,
        args: Sequence[str],
        drivers: Sequence[Driver] = (),
        *,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        bounds: Bounds | None = None,
    ) -> Finished:
        bounds = bounds or self._bounds
        argv = [self._executable, *safe_options(self.root, command, drivers), command, *args]
        safe_env = safe_environment(self._environment, env or {})
        try:
            return run_bounded(argv, cwd=self.root, env=safe_env, input=input, bounds=bounds)
        except TimeoutError:
            raise GitError(f"git {command} took longer than {bounds.seconds:g} s and was ended.") from None
        except OutputTooLarge:
            raise GitError(f"git {command} wrote more than {bounds.output:,} bytes and was ended.") from None
        except (OSError, ValueError) as error:
            raise GitError(f"git {command} cannot be started in {self.root}: {error}.") from error

    def _output(self, command: str, finished: Finished, ok_codes: Sequence[int]) -> bytes:
        if finished.code not in ok_codes:
            raise self._failed(command, finished)
        return finished.stdout

    @cached_property
    def _executable(self) -> str:
        found = self._found()
        if found is None:
            raise GitError(
                f"There is no program {self._program!r} to run.",
                suggestion="Install git 2.31 or newer and see that it is on the PATH.",
            )
        return found

    def _found(self) -> str | None:
        return shutil.which(self._program, path=self._environment.get("PATH", ""))

    def _failed(self, command: str, finished: Finished) -> GitError:
        said = _text(finished.stderr)
        if _NO_REPOSITORY in said:
            return NotARepository(f"{self.root} is not a git repository.")
        return GitError(f"git {command} failed with code {finished.code}: {said or 'it did not say why'}")


def check_hash(value: str) -> str:
    """The value itself, if it is the full hash of an object and nothing else."""
    if not _HASH.fullmatch(value):
        raise InvalidInput(f"{value[:100]!a} is not the full hash of a commit or tree.")
    return value


def _text(output: bytes) -> str:
    """The first of what git said, without what could disturb a terminal or a log."""
    text = output[:1000].decode(errors="replace").strip()
    return "".join(character if character.isprintable() else " " for character in text)
