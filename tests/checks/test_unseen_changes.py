"""What an agent can let a check read although no commit has it: git and the times of files do not show it."""

from __future__ import annotations

import mmap
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from checks.make import Project, replace_object, run_git, shell
from checks.test_attacks import Agent, attack_while_it_runs, own_cache
from deepwork.kernel.files.watching import CannotWatch, FolderWatch, find_open_for_writing
from deepwork.kernel.git.empty_repository import EmptyRepository
from deepwork.kernel.git.snapshot import SnapshotStore
from gated_project import GatedProject

__all__ = ["own_cache"]

RIGHT = "grep -qx right src/a.txt"
OTHER_ENCODING = "a.txt working-tree-encoding=IBM037"


@pytest.fixture(params=["", ", clean: true"], ids=["shared", "clean"])
def with_text(request: pytest.FixtureRequest, gated: GatedProject) -> GatedProject:
    """Its check passes if `src/a.txt` says so."""
    gated.write("src/a.txt", "wrong\n")
    gated.define_check(shell(RIGHT), request.param, guarded="['guarded/**']")
    return gated


# --- conversions


OTHER_ATTRIBUTES = {
    "of the repository": f"mkdir -p .git/info; echo '{OTHER_ENCODING}' > .git/info/attributes",
    "of a setting": f"echo '{OTHER_ENCODING}' > ../rules; git config core.attributesFile $PWD/../rules",
    "of the user": f"mkdir -p ~/.config/git; echo '{OTHER_ENCODING}' > ~/.config/git/attributes",
    "of an ignored file": f"echo .gitattributes >> .gitignore; echo '{OTHER_ENCODING}' > .gitattributes",
}


@pytest.mark.parametrize("where", OTHER_ATTRIBUTES)
def test_attributes_that_no_commit_has_convert_nothing(
    with_text: GatedProject, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With them, git would store other bytes than those that were checked, and give them back in clean trees."""
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = Agent(with_text)

    agent.sh(f"{OTHER_ATTRIBUTES[where]}; echo right > src/a.txt")

    assert agent.report()["code"] == "INVALID_STATE"


def test_attributes_that_a_process_puts_into_temporary_files_convert_nothing(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
):
    """Deepwork asks git about conversions in a repository of its own, which the agent's processes can find."""
    gated.write("src/a.txt", "wrong\n")
    gated.define_check(shell(RIGHT))
    agent = Agent(gated)
    agent.sh(f"{OTHER_ATTRIBUTES['of the repository']}; echo right > src/a.txt")
    seal = EmptyRepository.seal

    def add_attributes(self: EmptyRepository) -> None:
        seal(self)
        (self.folder / "git/info").mkdir(exist_ok=True)
        (self.folder / "git/info/attributes").write_text(OTHER_ENCODING)

    monkeypatch.setattr(EmptyRepository, "seal", add_attributes)

    assert agent.report()["code"] == "GIT_ERROR"


@pytest.mark.parametrize(
    ("rule", "content"),
    [
        ("*.txt text eol=crlf", b"right\r\n"),
        ("* text=auto", b"right\r\n"),
        ("*.txt ident", b"right\n$Id$\n"),
        (f"src/{OTHER_ENCODING}", "right\n".encode("cp037")),
    ],
)
def test_attributes_of_the_tree_convert_as_they_do_in_git(gated: GatedProject, rule: str, content: bytes):
    gated.write("src/a.txt", "wrong\n")
    check = "grep -q right src/a.txt || iconv -f IBM037 -t UTF-8 src/a.txt | grep -q right"
    gated.define_check(shell(check), ", clean: true")
    agent = Agent(gated)

    gated.write(".gitattributes", f"{rule}\n")
    gated.write("src/a.txt", content)

    assert agent.report() == {}


def test_a_file_of_nearly_the_same_name_is_part_of_the_tree(gated: GatedProject):
    gated.write("GOOD", "")
    gated.define_check(shell("test -e good"), ", clean: true")
    agent = Agent(gated)

    agent.sh("git config core.ignorecase true; echo > good")

    assert agent.report() == {}


# --- files that git does not see


@pytest.mark.parametrize("pipe", ["src/pipe", "guarded/pipe"])
def test_a_named_pipe_proves_nothing(gated: GatedProject, pipe: str):
    gated.write("guarded/test", "")
    gated.define_check(
        shell(f"test -p {pipe} && read word < {pipe} && test $word = right"), guarded="['guarded/**']"
    )
    agent = Agent(gated)

    agent.sh(f"mkdir -p guarded; mkfifo {pipe}; echo {pipe} > guarded/.gitignore")
    with subprocess.Popen(["sh", "-c", f"echo right > {pipe}"], cwd=agent.tree):
        error = agent.report()

    assert error["code"] in ("CHECKS_FAILED", "CHECKS_GUARDED")
    agent.sh("rm guarded/.gitignore")
    with subprocess.Popen(["sh", "-c", f"echo right > {pipe}"], cwd=agent.tree):
        assert agent.report()["code"] == "CHECKS_FAILED"


def test_a_pipe_that_the_project_ignores_is_its_own_affair(gated: GatedProject):
    agent = Agent(gated)
    gated.fix()

    agent.sh("mkfifo src/of.log")

    assert agent.report() == {}


@pytest.mark.parametrize("folder", ["extra", "guarded/extra"])
def test_a_file_for_a_moment_in_an_ignored_folder_proves_nothing(gated: GatedProject, folder: str):
    gated.write("guarded/test", "")
    gated.write(
        "Makefile",
        "test:\n\t@touch started.log; until test -e go.log; do sleep 0.01; done; $(MAKE) -s real\n"
        f"real:\n\t@false\n-include {folder}/real.mk\n",
    )
    gated.define_check("[make, -s, test]", guarded="['guarded/**']")
    agent = Agent(gated)
    agent.sh(f"mkdir {folder}; echo extra/ >> .git/info/exclude")

    error = attack_while_it_runs(agent, agent.tree, f"echo 'real: ; @rm {folder}/real.mk' > {folder}/real.mk")

    assert error["code"] == "CHECKS_FAILED"
    assert f"{folder}/real.mk" in error["checks"][0]["output"]


def test_a_stored_tree_that_lists_other_files_than_its_hash_is_not_believed(gated: GatedProject):
    """The agent knows the hash of the tree that deepwork will write, so it can write a lie there first."""
    gated.write("guarded/test", "hard\n")
    gated.commit()
    gated.define_check(shell("test -e good"), guarded="['guarded/**']")
    agent = Agent(gated)
    honest = run_git(gated.folder, "rev-parse", "HEAD:guarded")

    agent.sh("echo easy > guarded/more; touch good; git add -A")
    lie = run_git(gated.folder, "rev-parse", f"{run_git(gated.folder, 'write-tree')}:guarded")
    replace_object(gated.folder, lie, honest)

    assert agent.report()["code"] == "GIT_ERROR"


def test_checks_that_are_stored_under_the_hash_of_stricter_ones_are_not_believed(gated: GatedProject):
    """A person trusted both: the easier ones were those of an older commit."""
    gated.define_check(shell("true"))
    easy = run_git(gated.folder, "rev-parse", "HEAD:.deepwork/checks.yml")
    gated.define_check(shell("test -e good"))
    strict = run_git(gated.folder, "rev-parse", "HEAD:.deepwork/checks.yml")
    agent = Agent(gated)

    replace_object(gated.folder, strict, easy)

    assert agent.report()["code"] == "GIT_ERROR"


# --- files that are open


@contextmanager
def map_file(path: Path) -> Iterator[mmap.mmap]:
    """Map a file, and change it once: further changes have no time."""
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    mapped[:] = mapped[:]
    with mapped:
        yield mapped


def test_a_change_of_a_mapped_file_has_no_time(tmp_path: Path):
    """Why files that are open for writing prove nothing; if this fails, the system became better."""
    place = tmp_path / "a"
    place.write_bytes(b"wrong")

    with map_file(place) as mapped:
        before = place.stat().st_ctime_ns
        mapped[:] = b"right"

        assert (place.stat().st_ctime_ns, place.read_bytes()) == (before, b"right")
        assert find_open_for_writing(tmp_path, ["a"]) == ["a"]
    assert find_open_for_writing(tmp_path, ["a", "none"]) == []


def test_a_file_that_is_open_for_writing_proves_nothing(gated: GatedProject):
    """It is right only while the check looks at it."""
    gated.write("src/a.txt", "wrong\n")
    script = "touch started.log; until test -e go.log; do sleep 0.01; done; grep -qx right src/a.txt; s=$?"
    gated.define_check(
        shell(f"{script}; touch over.log; until test -e end.log; do sleep 0.01; done; exit $s")
    )
    agent = Agent(gated)

    with map_file(gated.folder / "src/a.txt") as mapped:

        def change() -> None:
            _wait_for(gated.folder / "started.log")
            mapped[:] = b"right\n"
            (gated.folder / "go.log").touch()
            _wait_for(gated.folder / "over.log")
            mapped[:] = b"wrong\n"
            (gated.folder / "end.log").touch()

        other = threading.Thread(target=change)
        other.start()
        error = agent.report()
        other.join()

    assert error["code"] == "CHECKS_FAILED"
    assert "open for writing" in error["checks"][0]["output"]


def _wait_for(path: Path) -> None:
    never = threading.Event()
    while not path.exists():
        never.wait(0.005)


def test_a_file_of_a_clean_tree_that_is_open_for_writing_proves_nothing(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
):
    gated.write("src/a.txt", "right\n")
    gated.define_check(shell(RIGHT), ", clean: true")
    agent = Agent(gated)
    check_out = SnapshotStore.check_out

    with ExitStack() as opened:

        def check_out_for_both(self: SnapshotStore, tree: str, folder: Path) -> None:
            check_out(self, tree, folder)
            opened.enter_context(map_file(folder / "src/a.txt"))

        monkeypatch.setattr(SnapshotStore, "check_out", check_out_for_both)
        error = agent.report()

    assert error["code"] == "CHECKS_FAILED"
    assert "open for writing" in error["checks"][0]["output"]


@pytest.mark.parametrize("clean", ["", ", clean: true"], ids=["shared", "clean"])
def test_a_file_that_is_opened_as_soon_as_nobody_looks_proves_nothing(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch, clean: str
):
    """Its first change has a time, which has to be later than the one that is compared at the end."""
    gated.write("src/a.txt", "right\n")
    gated.define_check(shell(RIGHT), clean)
    agent = Agent(gated)

    with ExitStack() as opened:

        def look_too_early(folder: Path, paths: Iterable[str]) -> list[str]:
            found = find_open_for_writing(folder, paths)
            time.sleep(0.05)  # times are those of ticks of the system
            opened.enter_context(map_file(folder / "src/a.txt"))
            return found

        monkeypatch.setattr("deepwork.gates.checks.runner.find_open_for_writing", look_too_early)
        error = agent.report()

    assert error["code"] == "CHECKS_FAILED"
    assert "src/a.txt" in error["checks"][0]["output"]


# --- what cannot be watched, and what was not watched


def test_where_folders_cannot_be_watched_nothing_is_proved(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
):
    """Somebody may have used up all watches of this user."""

    def refuse(self: FolderWatch) -> None:
        raise CannotWatch("No space left on device")

    monkeypatch.setattr(FolderWatch, "_start", refuse)
    agent = Agent(gated)
    gated.fix()

    error = agent.report()

    assert error["code"] == "CHECKS_FAILED"
    assert "max_user_watches" in error["checks"][0]["output"]


def test_a_run_that_proves_nothing_counts_no_tests(project: Project):
    """Otherwise such a run at the base would say how many tests there were."""
    report = "mkdir -p build; echo '<testsuite><testcase/></testsuite>' > build/r.xml"
    project.define_check(shell(f"{report}; touch src/a.py"), ", junit: build/r.xml")

    project.fail()

    with project.app.database.reading() as tx:
        assert [row["tests_run"] for row in tx.fetch_all("SELECT tests_run FROM proofs")] == [None]


# --- another user


@pytest.fixture
def open_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache in a folder that every user can enter, as many home folders are."""
    with TemporaryDirectory(prefix="deepwork-test-", dir="/var/lib") as folder:
        place = Path(folder)
        place.chmod(0o755)
        monkeypatch.setattr("deepwork.gates.checks.run_files.get_cache_folder", lambda: place / "deepwork")
        yield


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user of this machine")
@pytest.mark.usefixtures("open_cache")
def test_another_user_neither_reads_nor_prepares_clean_trees(gated: GatedProject, tmp_path: Path):
    """A real second user tries to write into the clean tree and all folders above it while a check runs."""
    place, said = tmp_path / "place", tmp_path / "said"
    tmp_path.chmod(0o755)
    waits = (
        f"pwd > {place}.new; mv {place}.new {place}; until test -e {said}; do sleep 0.01; done; test -e good"
    )
    gated.define_check(shell(waits), ", clean: true")
    agent = Agent(gated)
    answers: list[str] = []

    def act_as_another() -> None:
        _wait_for(place)
        folder = Path(place.read_text().strip())
        script = 'for f in "$@"; do (: > "$f/pytest.ini") 2>/dev/null && echo "wrote $f"; done; ls "$1"'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *map(str, (folder, *folder.parents))],
            user=65534, group=65534, extra_groups=[], cwd="/", check=False, capture_output=True, text=True,
        )  # fmt: skip
        answers.append(done.stdout)
        said.touch()

    other = threading.Thread(target=act_as_another)
    other.start()
    error = agent.report()
    other.join()

    assert answers == [""]
    assert error["code"] == "CHECKS_FAILED"
