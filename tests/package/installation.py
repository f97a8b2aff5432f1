"""Builds the package and installs it with its declared requirements and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
NEEDED_TO_BUILD = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "src", "docs", "deploy")


def copy_source(target: Path) -> Path:
    """Copy the files that are needed to build the package."""
    target.mkdir()
    for name in NEEDED_TO_BUILD:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    return target


def build_package(source: Path, kind: str, target: Path) -> Path:
    """Build a wheel or an sdist without the network."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), "-t", kind]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    [made] = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def read_contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def find_requirements(wheel: Path, extras: frozenset[str] = frozenset()) -> set[str]:
    """Find every distribution that an installer would install with the wheel, recursively."""
    metadata = next(text for name, text in read_contents(wheel).items() if name.endswith("/METADATA"))
    required = re.findall(r"^Requires-Dist: (.+)$", metadata.decode(), re.MULTILINE)
    found: set[str] = set()
    waiting = [(Requirement(line), extras) for line in required]
    while waiting:
        requirement, wanted = waiting.pop()
        if not _applies(requirement, wanted):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        seen = f"{name}[{','.join(sorted(requirement.extras))}]"
        if seen in found:
            continue
        found |= {seen, name}
        waiting += [
            (Requirement(line), frozenset(requirement.extras)) for line in distribution(name).requires or ()
        ]
    return {name for name in found if "[" not in name}


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


@dataclass(frozen=True)
class Installation:
    """A virtual environment with deepwork in it."""

    folder: Path

    @property
    def program(self) -> str:
        return str(self.folder / "bin" / "deepwork")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key in {"PATH", "HOME", "TMPDIR", "LANG"}}
        return kept | more

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments], env=self.environment(**environment),
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip


def install(wheel: Path, folder: Path) -> Installation:
    """Install the wheel into a new environment; link its requirements from this environment."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "--isolated",
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run(
        [*command, "--no-index", "--disable-pip-version-check", str(wheel)], check=True, capture_output=True
    )
    for name in find_requirements(wheel):
        _link(distribution(name), folder / "needed")
    (folder / "venv" / SITE / "needed.pth").write_text(f"{folder / 'needed'}\n")
    return Installation(folder / "venv")


def _link(found: Distribution, target: Path) -> None:
    """Link a distribution's files and their bytecode; folders are created, because some are shared."""
    for file, real in _list_files(found):
        link = target / file
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(real)


def _list_files(found: Distribution) -> Iterator[tuple[Path, Path]]:
    for file in found.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        real = Path(str(found.locate_file(file)))
        yield Path(file), real
        for compiled in real.parent.glob(f"__pycache__/{real.stem}.*.pyc") if real.suffix == ".py" else ():
            yield Path(file).parent / "__pycache__" / compiled.name, compiled
