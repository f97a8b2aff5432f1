"""A line of a file is found in another version of it, by the patch between the two."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deepwork.kernel.git.patches import find_line_before, reverse_patch

OLD = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n"


def diff(folder: Path, old: str, new: str, *flags: str) -> str:
    (folder / "old").write_text(old)
    (folder / "new").write_text(new)
    command = ["git", "diff", "--no-index", *flags, "old", "new"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("flags", [(), ("-U0",)])
@pytest.mark.parametrize(
    "new",
    [
        OLD,
        OLD.replace("c\n", "c\nx\ny\n"),
        OLD.replace("b\n", "").replace("j\n", "J\n"),
        f"x\n{OLD}--- y\n",
        "",
        OLD.replace("a\n", "++ a\n").removesuffix("l\n") + "l",
    ],
)
def test_every_line_that_both_versions_have_is_found(
    tmp_path: Path, new: str, flags: tuple[str, ...]
) -> None:
    patch, old = diff(tmp_path, OLD, new, *flags), OLD.splitlines()

    for number, text in enumerate(new.splitlines(), start=1):
        before = find_line_before(patch, number)
        assert (text if before is None else old[before - 1]) == text
        # Only the last line differs in how it ends.
        assert (before is None) == (text not in old or (text == "l" and not new.endswith("\n")))
    for number, text in enumerate(old, start=1):
        after = find_line_before(reverse_patch(patch), number)
        assert after is None or new.splitlines()[after - 1] == text
