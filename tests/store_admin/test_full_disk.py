"""A full disk: a small file system of its own, in a user namespace, that other files fill to the last byte."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from application import skip_or_fail
from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from workspaces.make import run_git

PLAN = "name: Hotel\nsummary: s\ntasks:\n  - {name: Export, description: Write it.}\n"
FILL = "cat /dev/zero > fill 2>/dev/null; echo x >> fill2 2>/dev/null; true"
NO_MOUNT = 99
NOTE = """\
import json, os, pathlib, sys
notes = pathlib.Path(os.environ["NOTES"])
said = {name: (notes / name).read_text() for name in ("out", "err")}
with (notes / "all").open("a") as stream:
    stream.write(json.dumps({"name": sys.argv[1], "code": int(sys.argv[2]), **said}) + chr(10))
"""


def deepwork(*words: str) -> str:
    """Return a shell command that notes, outside the full disk, what a command of deepwork answers."""
    command = shlex.join([sys.executable, "-P", "-m", "deepwork", *words])
    note = shlex.join([sys.executable, "-c", NOTE, words[0]])
    return f'{command} > "$NOTES/out" 2> "$NOTES/err"; {note} $?'


def run_on_small_disk(folder: Path, *commands: str) -> list[dict[str, Any]]:
    """Run shell commands in a project on a disk of 8 MiB; return what each command of deepwork answered."""
    for name in ("disk", "notes", "home"):
        (folder / name).mkdir()
    environment = {
        **os.environ,
        "DISK": str(folder / "disk"),
        "NOTES": str(folder / "notes"),
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
    }
    mount = f'mount -t tmpfs -o size=8m tmpfs "$DISK" || exit {NO_MOUNT}'
    script = "\n".join([mount, 'mkdir "$DISK/project" && cd "$DISK/project"', *commands])
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == NO_MOUNT or "unshare failed" in done.stderr:
        skip_or_fail(f"no file system can be mounted here: {done.stderr.strip()[-200:]}")
    return [json.loads(line) for line in (folder / "notes" / "all").read_text().splitlines()]


def begin() -> list[str]:
    """Return the commands that make a project with a plan."""
    git = "git -c user.name=a -c user.email=a@b.c"
    return [
        "git init -q -b main .",
        f"printf %s {shlex.quote(PLAN)} > plan.yml",
        f"{git} add . && {git} commit -qm Begin",
        deepwork("plans", "create", "--file", "plan.yml"),
    ]


@pytest.mark.needs("unshare")
def test_every_command_says_that_the_disk_is_full_and_nothing_is_lost(tmp_path: Path):
    reads = [("status",), ("plans", "list"), ("land", "Hotel"), ("db", "info")]
    run = ("run", "Hotel", "--agent", "true {prompt_file}")
    writes = [("plans", "create", "--file", "plan.yml"), ("tell", "Export", "hi"), run, ("init",)]
    asked = [*reads, *writes]
    freed = ["rm fill*", deepwork("plans", "list", "--json"), deepwork("doctor")]

    created, *refused, listed, healthy = run_on_small_disk(
        tmp_path, *begin(), FILL, *(deepwork(*words) for words in asked), *freed
    )

    assert created["code"] == 0, created
    found = [(each["name"], each["code"], "full" in each["err"]) for each in refused]
    assert found == [(words[0], 1, True) for words in asked]
    assert [each["name"] for each in json.loads(listed["out"])["workflows"]] == ["Hotel"]
    assert "is full" not in healthy["out"]


@pytest.mark.needs("unshare")
def test_doctor_says_which_disk_is_full(tmp_path: Path):
    _, sick = run_on_small_disk(tmp_path, *begin(), FILL, deepwork("doctor"))

    assert sick["code"] == 1
    assert f"PROBLEM: The disk at {tmp_path / 'disk'} is full (project, store)." in sick["out"]
    assert "cannot be read" not in sick["out"]


def test_an_error_of_git_on_a_full_disk_says_so(tmp_path: Path):
    run_git(tmp_path, "init", "-q")
    program = tmp_path / "full-git"
    program.write_text("#!/bin/sh\necho 'fatal: cannot write: No space left on device' >&2; exit 128\n")
    program.chmod(0o755)

    with pytest.raises(GitError, match="the disk is full"):
        Git(tmp_path, environment=dict(os.environ), program=str(program)).run("status")
