"""Rules of several `.gitignore` files, converted to rules of the root, ignore what git itself ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.empty_repository import convert_rules, filter_ignored

RULES = {
    "": "*.log\n!keep.log\n/only-root\nbuild/\n# comment\n# note\fnot-ignored\ndos\r\n\\#literal\n\nname \n",
    "a b/": "*.tmp\n/bound\nsub/deep\n!keep.tmp\nout/\n**/anywhere\n",
    "a b/sub/": "!again.log\nlocal\n",
}
PATHS = (
    *(
        "x.log",
        "keep.log",
        "only-root",
        "not-ignored",
        "dos",
        "a b/only-root",
        "build/x",
        "a b/build/y",
        "#literal",
        "name",
        "comment",
    ),
    *("a b/x.tmp", "x.tmp", "a b/bound", "a b/sub/bound", "a b/sub/deep", "a b/keep.tmp", "a b/sub/keep.tmp"),
    *(
        "a b/out/z",
        "a b/sub/out/z",
        "out/z",
        "a b/c/anywhere",
        "a b/sub/again.log",
        "a b/again.log",
        "a b/sub/local",
    ),
)


def test_converted_rules_ignore_what_git_ignores(tmp_path: Path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for folder, text in RULES.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / ".gitignore").write_text(text)
    (tmp_path / ".git/info/exclude").write_text("a b/again.log\n")
    git = Git(tmp_path, environment=build_child_environment())
    converted = [rule for folder, text in RULES.items() for rule in convert_rules(text, folder)]

    by_tree = filter_ignored(git, PATHS, (), tmp_path)
    by_rules = filter_ignored(git, PATHS, converted)

    asked = "\n".join(PATHS)
    (tmp_path / ".git/info/exclude").write_text("")
    command = ["git", "-c", "core.quotePath=false", "check-ignore", "--no-index", "--stdin"]
    by_git = subprocess.run(
        command, cwd=tmp_path, input=asked, capture_output=True, text=True, check=True
    ).stdout
    assert by_tree == by_rules == set(by_git.splitlines())
