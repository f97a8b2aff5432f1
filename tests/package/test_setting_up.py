"""`make demo`, the first thing that many run, says how far its set-up is, whichever installer it can use."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = """\
#!/bin/sh
echo "ran $(basename "$0") $*"
case "$*" in
  *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv ;;
  *uv.txt*) exit ${UV_FAILS:-0} ;;
esac
"""


@pytest.mark.parametrize(("uv_fails", "installer"), [("0", "ran uv"), ("1", "ran python -m pip")])
def test_setting_up_says_how_far_it_is(tmp_path: Path, uv_fails: str, installer: str):
    for name in ("Makefile", "pyproject.toml", "requirements"):
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy2
        copy(REPOSITORY / name, tmp_path / name)
    program = tmp_path / "python"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    made = subprocess.run(
        ["make", f"PYTHON={program}", ".venv/.ready"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PATH": "/usr/bin:/bin", "UV_FAILS": uv_fails},
    )  # fmt: skip

    lines = [line for line in made.stdout.splitlines() if line.startswith(("ran", "  "))]
    steps = [index for index, line in enumerate(lines) if re.match(r"  \d of 3: ", line)]
    assert [lines[index][2] for index in steps] == ["1", "2", "3"]
    assert all(lines[index + 1].startswith("ran") for index in steps)
    assert lines[steps[2] + 1].startswith(installer)
