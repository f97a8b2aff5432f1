"""Which paths callers may and may not name."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.paths import confine, read_confined

MALFORMED = [
    "",
    "   ",
    "a\0b",
    "\0",
    "~",
    "~/x",
    "~root/.ssh/id_rsa",
    "C:",
    "C:\\Windows",
    "c:/x",
    "c:x",
    "//server/share",
    "\\\\server\\share",
    "\\\\?\\C:\\x",
    "a\ud800",
    "\udc80",
    "x" * 256,
    "é" * 128,
    "a/" * 3000,
    "x" * 100_000,
]
ESCAPES = [
    "..",
    "../secret",
    "../project-evil/secret",
    "docs/../../secret",
    "./../secret",
    "docs/..//../secret",
    "missing/../../secret",
    "../" * 50 + "etc/passwd",
    "/",
    "/etc/passwd",
    "/dev/zero",
    "/proc/self/environ",
    "link-to-file",
    "link-to-directory/secret",
    "link-to-directory",
    "chain",
    "relative-link",
    "link-to-nothing-outside",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "plan.md").write_text("the plan")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project-evil").mkdir()
    (tmp_path / "project-evil" / "secret").write_text("secret")
    (project / "link-to-file").symlink_to(tmp_path / "secret")
    (project / "link-to-directory").symlink_to(tmp_path)
    (project / "chain").symlink_to("link-to-file")
    (project / "relative-link").symlink_to("docs/../../secret")
    (project / "link-to-nothing-outside").symlink_to(tmp_path / "nothing")
    return project


@pytest.mark.parametrize(
    "path", ["docs/plan.md", "./docs//plan.md", "docs/../docs/plan.md", "missing/../docs/plan.md"]
)
def test_a_path_inside_the_project_is_made_absolute(project: Path, path: str) -> None:
    assert confine(project, path) == project.resolve() / "docs" / "plan.md"


def test_an_absolute_path_is_accepted_where_it_leads_inside(project: Path) -> None:
    inside = str(project / "docs" / "plan.md")

    assert confine(project, inside) == Path(inside).resolve()


def test_a_project_reached_through_a_link_is_the_same_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(project)

    found = confine(tmp_path / "alias", str(tmp_path / "alias" / "docs" / "plan.md"))

    assert found == project.resolve() / "docs" / "plan.md"


def test_a_link_that_stays_inside_is_followed(project: Path) -> None:
    (project / "shortcut").symlink_to("docs/plan.md")

    assert confine(project, "shortcut") == project.resolve() / "docs" / "plan.md"
    assert read_confined(project, "shortcut", max_bytes=100) == b"the plan"


@pytest.mark.parametrize(
    "name", ["..data", "a..b", "...", "plan.md.", "-rf", "with\nnewline", "dé jà", "a\\..\\b"]
)
def test_strange_file_names_are_accepted(project: Path, name: str) -> None:
    (project / name).write_text("x")

    assert read_confined(project, name, max_bytes=10) == b"x"


@pytest.mark.parametrize("path", MALFORMED)
@pytest.mark.parametrize("must_exist", [True, False])
def test_a_malformed_path_is_refused(project: Path, path: str, must_exist: bool) -> None:
    with pytest.raises(InvalidInput) as refused:
        confine(project, path, must_exist=must_exist)

    assert refused.value.code == Code.INVALID_INPUT
    assert len(refused.value.message.encode()) < 1000


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("must_exist", [True, False])
def test_no_path_leads_outside_the_project(project: Path, path: str, must_exist: bool) -> None:
    with pytest.raises(InvalidInput) as refused:
        confine(project, path, must_exist=must_exist)

    assert refused.value.code == Code.PATH_OUTSIDE_PROJECT


def test_the_error_does_not_reveal_the_target_of_a_link(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        confine(project, "link-to-file")

    assert str(tmp_path) not in refused.value.message


@pytest.mark.parametrize("path", ["missing.md", "missing/deep.md", "docs/plan.md/below"])
def test_a_missing_file_is_an_error_unless_it_may_be_missing(project: Path, path: str) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        confine(project, path)

    assert confine(project, path, must_exist=False) == project.resolve() / path


def test_a_cyclic_link_is_an_error(project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")

    for path in ("a", "a/below"):
        for must_exist in (True, False):
            with pytest.raises(InvalidInput, match="cannot be followed"):
                confine(project, path, must_exist=must_exist)


def test_a_path_of_the_wrong_kind_is_refused(project: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a regular file"):
        confine(project, "docs", kind="file")
    with pytest.raises(InvalidInput, match="is not a directory"):
        confine(project, "docs/plan.md", kind="directory")

    assert confine(project, ".", kind="directory") == project.resolve()


@pytest.mark.parametrize("kind", ["file", "directory", "any"])
@pytest.mark.parametrize("path", ["fifo", "socket"])
def test_pipes_and_sockets_are_refused_immediately(
    project: Path, path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(project)  # the name of a socket must be short
        listener.bind("socket")

    with pytest.raises(InvalidInput, match="is not a"):
        confine(project, path, kind=kind)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="is not a regular file"):
        read_confined(project, path, max_bytes=10)


def test_a_file_over_the_limit_is_not_read(project: Path) -> None:
    with (project / "sparse").open("wb") as file:
        file.truncate(10 * 2**30)

    with pytest.raises(InvalidInput) as refused:
        read_confined(project, "sparse", max_bytes=1000)

    assert refused.value.code == Code.TOO_LARGE
    assert read_confined(project, "docs/plan.md", max_bytes=len("the plan")) == b"the plan"


def test_a_link_swapped_in_after_the_check_never_leads_outside(project: Path, tmp_path: Path) -> None:
    """The race of CVE-2025-53109: a file and then a directory keep turning into links and back."""
    outside = tmp_path / "project-evil"
    (outside / "plan.md").write_text("secret")
    stop = threading.Event()
    swapping = [
        threading.Thread(target=swap, args=(project / "docs", outside, stop)),
        threading.Thread(target=swap, args=(project / "file.md", outside / "plan.md", stop)),
    ]
    (project / "file.md").write_text("the plan")
    for thread in swapping:
        thread.start()

    seen: set[bytes | None] = set()
    deadline, tries = time.monotonic() + 60, 0
    try:
        # On a busy machine it may take longer until a swap interferes.
        while tries < 4000 or (not {b"the plan", None} <= seen and time.monotonic() < deadline):
            seen |= {attempt(project, path) for path in ("docs/plan.md", "file.md")}
            tries += 1
    finally:
        stop.set()
        for thread in swapping:
            thread.join()

    assert b"the plan" in seen
    assert b"secret" not in seen
    assert None in seen, "no swap ever interfered, so nothing was tested"


def swap(path: Path, outside: Path, stop: threading.Event) -> None:
    """Alternate `path` between itself and a link to `outside`; it is never missing in between."""
    link, real = path.with_name(f"{path.name}.link"), path.with_name(f"{path.name}.real")
    while not stop.is_set():
        link.symlink_to(outside)
        path.rename(real)
        link.rename(path)
        path.unlink()
        real.rename(path)


def attempt(project: Path, path: str) -> bytes | None:
    with suppress(InvalidInput):
        return read_confined(project, path, max_bytes=100)
    return None
