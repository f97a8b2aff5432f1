"""Git never runs a program that a repository's settings, hooks or attributes name.

Each case is tried twice: with plain git, which must run the marker (or the case would prove nothing), and
through deepwork, which must not.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git

if TYPE_CHECKING:
    from collections.abc import Callable

IDENTITY = {
    f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **IDENTITY}
# Plain git must ignore the settings of this machine too, which might interfere with a case.
PLAIN = {
    **ENVIRONMENT,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
EVERY_HOOK = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
    "sendemail-validate",
]


@dataclass(frozen=True)
class Trap:
    """A hostile repository, and the program it tries to run."""

    repository: Path
    program: Path
    marker: Path

    def set(self, *settings: str) -> None:
        """Set each `key=value`, with {} replaced by the program's path."""
        for setting in settings:
            key, _, value = setting.replace("{}", str(self.program)).partition("=")
            self.git("config", "--add", key, value)

    def attributes(self, line: str) -> None:
        path = self.repository / ".git" / "info" / "attributes"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{line}\n")

    def append(self, path: Path, text: str | bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    @property
    def config(self) -> Path:
        return self.repository / ".git" / "config"

    def git(self, *args: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *args], cwd=at or self.repository, env=PLAIN, capture_output=True, check=True
        )
        return done.stdout.decode().strip()


CASES: dict[str, Callable[[Trap], None]] = {}
DORMANT: set[str] = set()


def case(name: str, *, dormant: bool = False) -> Callable[[Callable[[Trap], None]], Callable[[Trap], None]]:
    """Register a case; `dormant` if these commands and this version of git do not trigger it."""

    def add(set_up: Callable[[Trap], None]) -> Callable[[Trap], None]:
        CASES[name] = set_up
        if dormant:
            DORMANT.add(name)
        return set_up

    return add


def settings(name: str, *lines: str, attributes: str = "", dormant: bool = False) -> None:
    @case(name, dormant=dormant)
    def _(trap: Trap) -> None:
        trap.set(*lines)
        if attributes:
            trap.attributes(attributes)


settings("fsmonitor", "core.fsmonitor={}")
settings("fsmonitor, version 2", "core.fsmonitor={}", "core.fsmonitorHookVersion=2")
settings("external diff", "diff.external={}")
settings("diff driver", "diff.evil.command={}", attributes="*.txt diff=evil")
settings("textconv", "diff.evil.textconv={}", attributes="*.txt diff=evil")
settings("cached textconv", "diff.evil.textconv={}", "diff.evil.cachetextconv=true", attributes="* diff=evil")
settings("clean filter", "filter.evil.clean={}", attributes="*.txt filter=evil")
settings("smudge filter", "filter.evil.smudge={}", attributes="*.txt filter=evil")
settings("filter process", "filter.evil.process={}", attributes="*.txt filter=evil")
settings(
    "required filter", "filter.evil.clean={}", "filter.evil.required=true", attributes="*.txt filter=evil"
)
settings("filter with dots", "filter.e.v.i.l.clean={}", attributes="*.txt filter=e.v.i.l")
settings("filter in capitals", "filter.EviL.clean={}", attributes="*.txt filter=EviL")
settings("merge driver", "merge.evil.driver={} %A", attributes="*.txt merge=evil")
settings("default merge driver", "merge.default=evil", "merge.evil.driver={} %A")
settings("pager", "core.pager={}", "pager.log={}", "pager.diff=true", "pager.status={}", dormant=True)
settings("editor", "core.editor={}", "sequence.editor={}", dormant=True)
settings("alias of a known command", "alias.status=!{}", "alias.diff=!{}", "alias.log=!{}", dormant=True)
settings("alias of an unknown command", "alias.from-a-newer-git=!{}")
settings("credential helper", "credential.helper=!{}", "credential.https://x.helper=!{}", dormant=True)
settings("ask-pass", "core.askPass={}", dormant=True)
settings(
    "difftool and mergetool",
    "diff.tool=e",
    "difftool.e.cmd={}",
    "merge.tool=e",
    "mergetool.e.cmd={}",
    dormant=True,
)
settings("trailer", "trailer.x.command={}", "trailer.x.ifmissing=add", dormant=True)
settings("signed commits", "commit.gpgSign=true", "gpg.program={}", dormant=True)
settings("patch filter", "interactive.diffFilter={}", dormant=True)
settings(
    "configured hook",
    "hook.x.command={}",
    "hook.x.event=post-checkout",
    "hook.x.event=post-index-change",
    dormant=True,
)
settings("collecting garbage", "gc.auto=1", "gc.recentObjectsHook={}", "maintenance.auto=true", dormant=True)


@case("filter with an equals sign")
def _(trap: Trap) -> None:
    trap.append(trap.config, f'[filter "a=b"]\n\tclean = {trap.program}\n')
    trap.attributes("*.txt filter=a=b")


@case("filter with a quote, a backslash, a bracket")
def _(trap: Trap) -> None:
    trap.append(trap.config, f'[filter "a\\"\\\\]b"]\n\tclean = {trap.program}\n')
    trap.attributes('*.txt filter=a"\\]b')


@case("filter that is not UTF-8")
def _(trap: Trap) -> None:
    trap.append(trap.config, b'[filter "\xff\xfe"]\n\tclean = %s\n' % bytes(trap.program))
    (trap.repository / ".gitattributes").write_bytes(b"*.txt filter=\xff\xfe\n")


@case("filter without a name")
def _(trap: Trap) -> None:
    trap.append(trap.config, f'[filter ""]\n\tclean = {trap.program}\n')
    trap.attributes("*.txt filter=")


@case("filter in the old style")
def _(trap: Trap) -> None:
    trap.append(trap.config, f"[FILTER.Evil] CLEAN = {trap.program}\n")
    trap.attributes("*.txt filter=evil")


@case("filter by .gitattributes")
def _(trap: Trap) -> None:
    trap.set("filter.evil.clean={}", "filter.evil.smudge={}")
    (trap.repository / ".gitattributes").write_text("* filter=evil\n")


@case("filter by core.attributesFile")
def _(trap: Trap) -> None:
    elsewhere = trap.repository.parent / "attributes"
    elsewhere.write_text("* filter=evil\n")
    trap.set("filter.evil.clean={}", f"core.attributesFile={elsewhere}")


@case("included settings")
def _(trap: Trap) -> None:
    trap.append(trap.repository / "shared" / "settings", f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.set("include.path=../shared/settings")
    trap.attributes("*.txt filter=evil")


@case("included by the included, from another place")
def _(trap: Trap) -> None:
    outside = trap.repository.parent / "outside"
    trap.append(outside / "a", "[include]\n\tpath = b\n")
    trap.append(outside / "b", f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.set(f"include.path={outside / 'a'}", "include.path=missing")
    trap.attributes("*.txt filter=evil")


@case("included only in the worktree that is being made")
def _(trap: Trap) -> None:
    trap.append(trap.config, '[includeIf "gitdir:**/worktrees/**"]\n\tpath = only-there\n')
    trap.append(trap.repository / ".git" / "only-there", f'[filter "evil"]\n\tsmudge = {trap.program}\n')
    trap.attributes("*.txt filter=evil")


@case("included only on the branch that is being made")
def _(trap: Trap) -> None:
    trap.append(trap.config, '[includeIf "onbranch:deepwork/**"]\n\tpath = only-there\n')
    trap.append(trap.repository / ".git" / "only-there", f'[filter "evil"]\n\tsmudge = {trap.program}\n')
    trap.attributes("*.txt filter=evil")


@case("settings of the worktree")
def _(trap: Trap) -> None:
    trap.set("extensions.worktreeConfig=true")
    trap.append(
        trap.repository / ".git" / "config.worktree",
        f'[core]\n\tfsmonitor = {trap.program}\n[filter "evil"]\n\tclean = {trap.program}\n',
    )
    trap.attributes("*.txt filter=evil")


@case("settings that are a link")
def _(trap: Trap) -> None:
    trap.set("filter.evil.clean={}")
    trap.config.rename(trap.repository / "moved")
    trap.config.symlink_to(trap.repository / "moved")
    trap.attributes("*.txt filter=evil")


def plant_hooks(directory: Path, program: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in EVERY_HOOK:
        (directory / name).write_text(f"#!/bin/sh\nexec {program}\n")
        (directory / name).chmod(0o755)


@case("hooks")
def _(trap: Trap) -> None:
    plant_hooks(trap.repository / ".git" / "hooks", trap.program)


@case("hooks in a directory of the project")
def _(trap: Trap) -> None:
    plant_hooks(trap.repository / "hooks", trap.program)
    trap.set("core.hooksPath=hooks")


@case("only the hook after a checkout")
def _(trap: Trap) -> None:
    plant_hooks(trap.repository / "hooks", trap.program)
    hook = trap.repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    (trap.repository / "hooks" / "post-checkout").rename(hook)


def sign_head(trap: Trap, kind: str) -> None:
    head, tree = trap.git("rev-parse", "HEAD"), trap.git("rev-parse", "HEAD^{tree}")
    signed = trap.repository.parent / "signed"
    signed.write_text(
        f"tree {tree}\nparent {head}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n"
        f"gpgsig -----BEGIN {kind}-----\n \n AAAA\n -----END {kind}-----\n\nsigned\n"
    )
    trap.git("update-ref", "HEAD", trap.git("hash-object", "-t", "commit", "-w", str(signed)))


@case("signature, checked by gpg")
def _(trap: Trap) -> None:
    sign_head(trap, "PGP SIGNATURE")
    trap.set("log.showSignature=true", "gpg.program={}")


@case("signature, checked by openpgp")
def _(trap: Trap) -> None:
    sign_head(trap, "PGP SIGNATURE")
    trap.set("log.showSignature=true", "gpg.openpgp.program={}")


@case("signature, checked by x509")
def _(trap: Trap) -> None:
    sign_head(trap, "SIGNED MESSAGE")
    trap.set("log.showSignature=true", "gpg.x509.program={}")


@case("signature, checked by ssh")
def _(trap: Trap) -> None:
    sign_head(trap, "SSH SIGNATURE")
    (trap.repository / "signers").write_text("a@example.org ssh-ed25519 AAAA\n")
    trap.set(
        "log.showSignature=true",
        "gpg.ssh.program={}",
        f"gpg.ssh.allowedSignersFile={trap.repository}/signers",
    )


def lose_an_object(trap: Trap) -> None:
    """Delete an object: a partial clone fetches missing objects as its settings say."""
    blob = trap.git("rev-parse", "HEAD:file.txt")
    (trap.repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    trap.set(
        "core.repositoryFormatVersion=1", "extensions.partialClone=origin", "remote.origin.promisor=true"
    )


@case("missing object, fetched by a program of theirs")
def _(trap: Trap) -> None:
    lose_an_object(trap)
    trap.set(
        f"remote.origin.url={trap.repository}", "remote.origin.uploadpack={}", "protocol.file.allow=always"
    )


@case("missing object, fetched by ext::")
def _(trap: Trap) -> None:
    lose_an_object(trap)
    trap.set("remote.origin.url=ext::{}", "protocol.ext.allow=always", "protocol.allow=always")


@case("missing object, fetched by ssh")
def _(trap: Trap) -> None:
    lose_an_object(trap)
    trap.set("remote.origin.url=ssh://x.invalid/y", "core.sshCommand={}", "protocol.ssh.allow=always")


@case("missing object, fetched through a proxy")
def _(trap: Trap) -> None:
    lose_an_object(trap)
    trap.set("remote.origin.url=git://x.invalid/y", "core.gitProxy={}", "protocol.git.allow=always")


@case("missing object, redirected by insteadOf")
def _(trap: Trap) -> None:
    lose_an_object(trap)
    trap.set(
        "remote.origin.url=https://x/y", "url.ext::{} .insteadOf=https://x/", "protocol.ext.allow=always"
    )


def plant_submodule(trap: Trap) -> Path:
    inside = trap.repository / "sub"
    inside.mkdir()
    trap.git("init", "-q", at=inside)
    (inside / "in.txt").write_text("in")
    trap.git("add", "-A", at=inside)
    trap.git("commit", "-q", "-m", "in", at=inside)
    trap.git("add", "sub")
    (inside / "in.txt").write_text("IN")
    return inside


def hostile_filter_in(inside: Path, trap: Trap) -> None:
    trap.git("config", "filter.inner.clean", str(trap.program), at=inside)
    (inside / ".git" / "info").mkdir(exist_ok=True)
    (inside / ".git" / "info" / "attributes").write_text("* filter=inner\n")


@case("submodule with a filter of its own")
def _(trap: Trap) -> None:
    hostile_filter_in(plant_submodule(trap), trap)


@case("submodule that insists on being looked into")
def _(trap: Trap) -> None:
    hostile_filter_in(plant_submodule(trap), trap)
    (trap.repository / ".gitmodules").write_text(
        '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n'
    )
    trap.set("submodule.sub.ignore=none", "submodule.sub.active=true", "diff.ignoreSubmodules=none")


@case("submodule within a submodule")
def _(trap: Trap) -> None:
    inside = plant_submodule(trap)
    deeper = plant_submodule(Trap(inside, trap.program, trap.marker))
    trap.git("commit", "-q", "-m", "deeper", at=inside)
    trap.git("add", "sub")
    hostile_filter_in(deeper, trap)


@case("submodule with a monitor of its own")
def _(trap: Trap) -> None:
    trap.git("config", "core.fsmonitor", str(trap.program), at=plant_submodule(trap))


@case("submodule with a diff of its own")
def _(trap: Trap) -> None:
    inside = plant_submodule(trap)
    trap.git("config", "diff.external", str(trap.program), at=inside)
    trap.set("diff.submodule=diff", "status.submoduleSummary=true", "submodule.recurse=true")


@case("submodule updated by a program", dormant=True)
def _(trap: Trap) -> None:
    plant_submodule(trap)
    trap.set(
        "submodule.sub.update=!{}",
        "submodule.sub.url=./sub",
        "submodule.sub.active=true",
        "submodule.recurse=true",
    )


@case("alternates", dormant=True)
def _(trap: Trap) -> None:
    trap.append(
        trap.repository / ".git" / "objects" / "info" / "alternates", f"{trap.repository}/sub/objects\n"
    )
    trap.set("core.alternateRefsCommand={}")


@pytest.fixture
def trap(repository: Path, tmp_path: Path) -> Trap:
    marker, program = tmp_path / "marker", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    return Trap(repository, program, marker)


Command = tuple[tuple[str, ...], dict[str, str]]


def commands(repository: Path) -> list[Command]:
    """List the git commands that deepwork uses, including those of snapshots and worktrees."""
    index = {"GIT_INDEX_FILE": str(repository.parent / "index")}
    return [
        (("status", "--porcelain=v2", "-z", "--untracked-files=all"), {}),
        (("rev-parse", "HEAD"), {}),
        (("ls-files", "-z", "--modified", "--others", "--exclude-standard"), {}),
        (("diff", "HEAD"), {}),
        (("diff", "-z", "--end-of-options", "HEAD", "--"), {}),
        (("diff-index", "-p", "HEAD"), {}),
        (("diff-files", "-p"), {}),
        (("diff-tree", "-p", "theirs", "main"), {}),
        (("log", "-p", "-3"), {}),
        (("show", "HEAD"), {}),
        (("read-tree", "HEAD"), index),
        (("add", "-A"), index),
        (("add", "-A"), index),
        (("write-tree",), index),
        (("commit-tree", "HEAD^{tree}", "-m", "snapshot"), IDENTITY),
        (("merge-tree", "--write-tree", "theirs", "main"), {}),
        (("worktree", "add", "-b", "deepwork/task", str(repository.parent / "worktree"), "main"), {}),
        (("config", "-z", "--list"), {}),
        (("from-a-newer-git",), {}),
    ]


@pytest.mark.parametrize("name", [name for name in CASES if name not in DORMANT])
def test_plain_git_runs_programs_that_the_repository_names(trap: Trap, name: str) -> None:
    CASES[name](trap)

    for args, env in commands(trap.repository):
        subprocess.run(
            ["git", *args],
            cwd=trap.repository,
            env={**PLAIN, **env},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    assert trap.marker.exists()


@pytest.mark.parametrize("name", CASES)
def test_safe_git_runs_nothing_that_the_repository_names(trap: Trap, name: str) -> None:
    CASES[name](trap)
    trap.marker.unlink(missing_ok=True)
    git = Git(trap.repository, environment=ENVIRONMENT)
    succeeded = 0

    for args, env in commands(trap.repository):
        with suppress(GitError):
            git.run(*args, env=env, ok_codes=(0, 1))
            succeeded += 1
        assert not trap.marker.exists(), f"git {args[0]} ran it"

    assert succeeded >= 9, "a test in which git refuses to work proves nothing"


def test_there_are_at_least_thirty_cases() -> None:
    assert len(CASES) - len(DORMANT) >= 30


def test_a_bare_repository_hidden_among_the_files_is_not_entered(trap: Trap) -> None:
    inside = trap.repository / "docs"
    trap.git("init", "-q", "--bare", str(inside))
    trap.git("config", "core.fsmonitor", str(trap.program), at=inside)
    trap.git("config", "core.bare", "false", at=inside)
    trap.git("config", "core.worktree", str(trap.repository), at=inside)
    git = Git(inside, environment=ENVIRONMENT)

    git.run("status", "--porcelain", "-z")

    assert git.find_places().git_dir == trap.repository / ".git"
    assert not trap.marker.exists()


def set_in_config(project: Path, *setting: str) -> None:
    subprocess.run(["git", "config", *setting], cwd=project, check=True)


@pytest.mark.parametrize("is_linked", [False, True], ids=["main", "linked"])
@pytest.mark.parametrize("how", ["config", "worktree", "include"])
def test_the_working_tree_is_never_what_the_settings_say(tmp_path: Path, how: str, is_linked: bool) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    other.mkdir()
    (other / "evil").touch()
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    tree = tmp_path / "linked" if is_linked else main
    if is_linked:
        subprocess.run(["git", "worktree", "add", "-q", str(tree)], cwd=main, check=True)
    (tree / "good").touch()
    if how == "worktree":
        set_in_config(tree, "extensions.worktreeConfig", "true")
        set_in_config(tree, "--worktree", "core.worktree", str(other))
    elif how == "include":
        (tmp_path / "included").write_text(f"[core]\nworktree = {other}\n")
        set_in_config(tree, "include.path", str(tmp_path / "included"))
    else:
        set_in_config(tree, "core.worktree", str(other))
    git = Git(tree, environment=ENVIRONMENT)

    listed = git.run("ls-files", "-z", "--others")

    assert git.find_places().top == tree
    assert listed == b"good\0"


@pytest.mark.parametrize("path", ["/dev/stdin", "/proc/self/cmdline", "/dev/fd/0"])
def test_settings_that_read_differently_each_time_are_refused(trap: Trap, path: str) -> None:
    trap.set(f"include.path={path}")
    git = Git(trap.repository, environment=ENVIRONMENT)

    for _ in range(2):
        with pytest.raises(GitError, match=r"not a regular file|rev-parse failed"):
            git.run("hash-object", "--stdin", input=b"[core]\n")


def test_a_repository_in_a_memory_file_system_has_settings_like_any_other(trap: Trap) -> None:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        included = Path(folder) / "included"
        included.write_text("[user]\nname = Ada\n")
        trap.set(f"include.path={included}")

        answer = Git(trap.repository, environment=ENVIRONMENT).run("hash-object", "--stdin", input=b"")

    assert len(answer.strip()) == 40


def test_a_filter_added_later_is_detected(trap: Trap) -> None:
    git = Git(trap.repository, environment=ENVIRONMENT)
    git.run("diff", "HEAD")
    trap.set("filter.evil.clean={}")
    trap.attributes("* filter=evil")

    git.run("diff", "HEAD")

    assert not trap.marker.exists()


def test_settings_are_read_again_after_an_error(trap: Trap) -> None:
    outside = trap.repository.parent / "outside"
    outside.write_text("[broken")
    trap.append(trap.config, f"[include]\n\tpath = {outside}\n")
    trap.append(trap.config, f'[filter "evil"]\n\tclean = {trap.program}\n')
    trap.attributes("* filter=evil")
    git = Git(trap.repository, environment=ENVIRONMENT)
    with pytest.raises(GitError):
        git.run("diff", "HEAD")
    outside.write_text("")

    git.run("diff", "HEAD")

    assert not trap.marker.exists()


def test_many_threads_may_run_git_concurrently(trap: Trap) -> None:
    trap.set("filter.evil.clean={}")
    trap.attributes("* filter=evil")
    git = Git(trap.repository, environment=ENVIRONMENT)

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(lambda _: git.run("diff", "HEAD"), range(16)))

    assert len(answers) == 1
    assert not trap.marker.exists()


def test_only_named_variables_of_the_callers_environment_reach_git(trap: Trap) -> None:
    hostile = {
        "GIT_EXTERNAL_DIFF": str(trap.program),
        "GIT_SSH_COMMAND": str(trap.program),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap.program),
        "GIT_DIR": "/nonexistent",
        "DEEPWORK_TOKEN": "secret",
    }
    shown = trap.repository.parent / "env"
    shown.write_text("#!/bin/sh\nenv\n")
    shown.chmod(0o755)

    Git(trap.repository, environment={**ENVIRONMENT, **hostile}).run("diff", "HEAD")
    env = Git(trap.repository, environment={**ENVIRONMENT, **hostile}, program=str(shown)).run("version")

    assert not trap.marker.exists()
    # Our own settings have names of the same form.
    theirs = {name.encode() for name in hostile if not name.startswith("GIT_CONFIG_")}
    assert not theirs & {line.split(b"=")[0] for line in env.splitlines()}
    assert bytes(trap.program) not in env


def test_files_with_a_disabled_merge_driver_are_merged_as_text(trap: Trap) -> None:
    trap.set("merge.evil.driver={} %A")
    trap.attributes("*.txt merge=evil")
    git = Git(trap.repository, environment=ENVIRONMENT)

    conflict = git.run("merge-tree", "--write-tree", "-z", "theirs", "main", ok_codes=(1,))

    assert b"CONFLICT (contents)" in conflict
