"""A person's checkout with everything that a runner could spoil, and a fingerprint of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from workspaces.make import commit, run_git

HOOKS = ("pre-commit", "post-commit", "post-checkout", "post-merge", "reference-transaction", "pre-push")


def create_checkout(folder: Path, committed: Mapping[str, str] | None = None) -> Path:
    """Create a repository with a stash, a staged change, a change, a file that git does not know, and hooks."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("/.deepwork/\n/ignored.txt\n")
    for name, text in (committed or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        run_git(folder, "add", "-f", name)
    commit(folder, "first", a_txt="one\n", b_txt="one\n", c_txt="one\n")
    (folder / "c.txt").write_text("stashed\n")
    run_git(folder, "stash")
    (folder / "a.txt").write_text("staged\n")
    run_git(folder, "add", "a.txt")
    (folder / "b.txt").write_text("changed\n")
    (folder / "unknown.txt").write_text("new\n")
    (folder / "ignored.txt").write_text("ignored\n")
    _write_hooks(folder)
    return folder


def _write_hooks(folder: Path) -> None:
    """Write hooks that leave a trace where they run."""
    for name in HOOKS:
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> '{folder.parent / 'hooks-ran'}'\n")
        hook.chmod(0o755)


def list_differences(before: dict[str, str], folder: Path) -> list[str]:
    """List what of the checkout is not as it was."""
    after = take_fingerprint(folder)
    return [
        f"{name} of the checkout was {before.get(name)!r} and is {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def take_fingerprint(folder: Path) -> dict[str, str]:
    """Return a fingerprint of every part of the checkout that belongs to the person."""
    git = folder / ".git"
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not {".git", ".deepwork"} & set(path.relative_to(folder).parts)
    ]
    own = [git / "HEAD", git / "index", git / "config", *(git / "hooks").iterdir()]
    parts = {str(path.relative_to(folder)): _describe_file(path) for path in (*files, *own)}
    return parts | {
        "status": run_git(folder, "--no-optional-locks", "status", "--porcelain=v2", "--branch"),
        "stash": run_git(folder, "stash", "list", "--format=%H %gs"),
        "hooks that ran": _read(folder.parent / "hooks-ran"),
    }


def _describe_file(path: Path) -> str:
    status = path.stat()
    return f"{status.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
