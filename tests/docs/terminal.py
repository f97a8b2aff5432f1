"""Runs a page's commands in a real shell, with an empty project, its own home and the real `deepwork`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.ports import HeldPort
from quick import build_command as deepwork_command

SECONDS_FOR_A_COMMAND = 100
SECONDS_TO_END = 60
HOME_IN_PAGES = "/home/ada"
PROJECT = "shop"
# Ports in the pages, which are replaced by free ports.
PORTS = ("8000", "8765")


class CommandFailed(AssertionError):
    """A command did not do what its page says."""


class Terminal:
    """One shell per page; processes that it started end with it."""

    def __init__(self, folder: Path, stand_ins: dict[str, str]) -> None:
        self.home = folder / "home"
        self.project = self.home / PROJECT
        self.project.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        self._install()
        self._notes = folder / "notes"
        self._notes.mkdir()
        self._count = 0
        self._ports = {port: HeldPort() for port in PORTS}
        ports = {f"127.0.0.1:{port}": f"127.0.0.1:{held.number}" for port, held in self._ports.items()}
        self._stand_ins = {HOME_IN_PAGES: str(self.home), **ports, **stand_ins}
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.project,
            env=self._build_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        self._staying: dict[str, Path] = {}
        self._place = self._notes / "folder"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._shell.stdin is not None
        try:
            os.killpg(self._shell.pid, signal.SIGTERM)
            self._shell.stdin.close()
        except (ProcessLookupError, BrokenPipeError):
            pass
        try:
            self._shell.wait(SECONDS_TO_END)
            _wait(lambda: not _is_group_running(self._shell.pid), SECONDS_TO_END)
        except (subprocess.TimeoutExpired, TimeoutError):
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        finally:
            for port in self._ports.values():
                port.release()

    @property
    def folder(self) -> Path:
        """The shell's current folder."""
        return Path(self._place.read_text().strip()) if self._place.exists() else self.project

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit code and output, including standard error."""
        output, code = self._send(command)
        try:
            _wait(lambda: code.exists() or self._shell.poll() is not None, SECONDS_FOR_A_COMMAND)
        except TimeoutError:
            raise CommandFailed(
                f"$ {command}\nis still running. If it should, say `stays` in its fence.\n{output.read_text()}"
            ) from None
        if not code.exists():
            raise CommandFailed(f"$ {command}\nended the shell, or is not a valid command.")
        return int(code.read_text()), self.to_page_paths(output.read_text())

    def leave_running(self, command: str, is_enough: Callable[[str], bool]) -> str:
        """Start a command in the background; return its output as soon as that is enough."""
        output, code = self._send(command, stays=True)
        _wait(output.exists, SECONDS_FOR_A_COMMAND)
        with suppress(TimeoutError):  # the caller compares the output, and reports what is missing
            _wait(
                lambda: code.exists() or is_enough(self.to_page_paths(output.read_text())),
                SECONDS_FOR_A_COMMAND,
            )
        self._staying[command] = code
        return self.to_page_paths(output.read_text())

    def list_ended_early(self) -> list[str]:
        """List background commands that have ended."""
        return [command for command, code in self._staying.items() if code.exists()]

    def to_real_paths(self, text: str) -> str:
        """Replace the paths and ports on a page by those of this machine."""
        for shown, real in self._stand_ins.items():
            text = text.replace(shown, real)
        return text

    def to_page_paths(self, text: str) -> str:
        """Replace the paths and ports of this machine by those on the page."""
        for shown, real in self._stand_ins.items():
            text = text.replace(real, shown)
        return text

    def _send(self, command: str, *, stays: bool = False) -> tuple[Path, Path]:
        assert self._shell.stdin is not None
        self._count += 1
        output, code = self._notes / f"{self._count}.output", self._notes / f"{self._count}.code"
        body = f"{{ {self._use_free_port(self.to_real_paths(command))}\n}} </dev/null >'{output}' 2>&1"
        # The exit code is written to a temporary file and renamed, so that a reader never sees it half written.
        noted = f"echo $? >'{code}.new'; pwd >'{self._place}'; mv '{code}.new' '{code}'"
        self._shell.stdin.write(f"{{ {body}\n{noted}; }} &\n" if stays else f"{body}\n{noted}\n")
        self._shell.stdin.flush()
        return output, code

    def _use_free_port(self, command: str) -> str:
        """Give the dashboard a free port; it has no setting for its port, only a flag."""
        if command.startswith("deepwork dashboard") and "--port" not in command:
            port = self._ports["8765"].number
            return command.replace("deepwork dashboard", f"deepwork dashboard --port {port}", 1)
        return command

    def _install(self) -> None:
        """Put a `deepwork` on the PATH that starts a pre-imported process for each command."""
        program = self.home / "bin" / "deepwork"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(deepwork_command())} "$@"\n')
        program.chmod(0o755)

    def _build_environment(self) -> dict[str, str]:
        programs = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {
            "PATH": f"{self.home / 'bin'}:{programs}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "DEEPWORK_PORT": str(self._ports["8000"].number),
            "TZ": "UTC",
            "BROWSER": "true",  # a program that opens nothing
        }


def _wait(is_so: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process is running; one that has ended may stay a zombie until init reaps it."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it has just ended, or this system has no /proc
        return not Path("/proc/self").exists()


def _is_group_running(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(is_running(pid) for pid in _list_group_members(group))


def _list_group_members(group: int) -> list[int]:
    """List the processes of a group; without /proc only its leader."""
    if not Path("/proc/self").exists():
        return [group]
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "stat").read_text().rpartition(")")[2].split()[2] == str(group):
                found.append(int(place.name))
    return found
