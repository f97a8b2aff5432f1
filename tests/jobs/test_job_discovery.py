"""Jobs are found in three places; each name refers to one job; unchanged files are not read again."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.errors import Code, DefinitionError, NotFound
from deepwork.kernel.files.definitions import DefinitionReader
from deepwork.work.jobs.definitions import catalog
from deepwork.work.jobs.definitions.catalog import STANDARD_JOBS, JobCatalog
from deepwork.work.jobs.definitions.validation import JobValidation, validate_job
from jobs.make import make_catalog, make_job, make_step, make_workflow, write_job, write_project_job

STANDARD = ["deepwork_jobs", "hello_review"]


def wait_until_cacheable() -> None:
    """Wait until the clock of the file system can tell a change from none; before, nothing is cached."""
    time.sleep(0.03)


def list_names(made: JobCatalog) -> list[str]:
    return [found.name for found in made.load_all()[0]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were really read, in order."""
    seen: list[str] = []

    def counting(folder: Path, reader: DefinitionReader) -> JobValidation:
        seen.append(folder.name)
        return validate_job(folder, reader)

    monkeypatch.setattr(catalog, "validate_job", counting)
    return seen


def test_jobs_are_loaded_from_the_project_then_the_package_then_additional_folders(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="own"))
    write_job(tmp_path / "more" / "zulu", make_job(name="zulu"))
    write_job(tmp_path / "more" / "alpha", make_job(name="alpha"))
    made = make_catalog(tmp_path, tmp_path / "more")

    assert made.list_folders() == [tmp_path / ".deepwork" / "jobs", STANDARD_JOBS, tmp_path / "more"]
    assert list_names(made) == ["own", *STANDARD, "alpha", "zulu"]


def test_a_project_without_jobs_has_the_standard_ones(tmp_path: Path):
    assert list_names(make_catalog(tmp_path)) == STANDARD


def test_additional_folders_are_read_on_every_call_and_may_be_relative(tmp_path: Path):
    write_job(tmp_path / "more" / "extra", make_job(name="extra"))
    further: list[Path] = []
    made = JobCatalog(tmp_path, lambda: further)
    before = list_names(made)

    further.append(Path("more"))

    assert (before, list_names(made)) == (STANDARD, [*STANDARD, "extra"])


def test_missing_folders_and_files_in_place_of_folders_are_skipped(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    write_project_job(tmp_path, make_job())
    (tmp_path / ".deepwork" / "jobs" / "notes.md").write_text("not a job")
    (tmp_path / ".deepwork" / "jobs" / "empty").mkdir()

    found, errors = make_catalog(tmp_path, tmp_path / "none", tmp_path / "file").load_all()

    assert [each.name for each in found] == ["report", *STANDARD]
    assert errors == []


def test_the_first_folder_with_a_directory_name_wins(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="hello_review", summary="Mine."))
    write_job(tmp_path / "more" / "hello_review", make_job(name="hello_review", summary="Theirs."))
    made = make_catalog(tmp_path, tmp_path / "more")

    assert list_names(made) == ["hello_review", "deepwork_jobs"]
    assert made.get("hello_review").summary == "Mine."
    assert made.load_all()[1] == []


def test_standard_jobs_take_precedence_over_additional_folders(tmp_path: Path):
    write_job(tmp_path / "more" / "hello_review", make_job(name="hello_review"))

    assert make_catalog(tmp_path, tmp_path / "more").get("hello_review").folder.parent == STANDARD_JOBS


def test_a_job_is_found_by_its_directory_and_by_its_name(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="report"), directory="my-report")
    made = make_catalog(tmp_path)

    assert made.get("my-report") == made.get("report")
    assert list_names(made) == ["report", *STANDARD]


def test_of_two_jobs_with_the_same_name_the_one_in_the_matching_directory_wins(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="report", summary="First by letter."), directory="a")
    write_project_job(tmp_path, make_job(name="report", summary="In its place."), directory="report")
    made = make_catalog(tmp_path)
    found, [error] = made.load_all()

    assert made.get("report").summary == "In its place."
    assert [each.summary for each in found if each.name == "report"] == ["In its place."]
    assert error.job_name == "a"
    assert "Two jobs share a name: 'report' in 'a' clashes" in error.error
    with pytest.raises(DefinitionError, match="Two jobs share a name"):
        made.get("a")


def test_a_directory_with_the_name_of_another_job_is_an_error(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="first"), directory="first")
    write_project_job(tmp_path, make_job(name="first"), directory="zulu")
    write_project_job(tmp_path, make_job(name="other"), directory="third")
    write_project_job(tmp_path, make_job(name="third"), directory="fourth")
    made = make_catalog(tmp_path)
    _, errors = made.load_all()

    assert made.get("first").folder.name == "first"
    assert made.get("third").name == "third", "of two that are not in their places, the first by letter"
    assert [error.job_name for error in errors] == ["third", "zulu"]


def test_a_project_job_hides_a_standard_job_of_the_same_name_and_this_is_reported(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="hello_review", summary="Mine."), directory="greeting")
    made = make_catalog(tmp_path)
    found, [error] = made.load_all()

    assert made.get("hello_review").summary == "Mine."
    assert [each.name for each in found] == ["hello_review", "deepwork_jobs"]
    assert (error.job_name, error.job_dir) == ("hello_review", str(STANDARD_JOBS / "hello_review"))


def test_a_broken_job_hides_the_standard_one_and_the_error_says_so(tmp_path: Path):
    folder = write_project_job(tmp_path, "name: [", directory="hello_review")
    made = make_catalog(tmp_path)
    found, [error] = made.load_all()

    assert [each.name for each in found] == ["deepwork_jobs"]
    assert (error.job_name, error.job_dir) == ("hello_review", str(folder))
    assert f"{folder}/job.yml:1: " in error.error
    assert f"it hides the job of the same name in {STANDARD_JOBS / 'hello_review'}." in error.error
    with pytest.raises(DefinitionError, match="Failed to load the job"):
        made.get("hello_review")


def test_a_broken_job_reserves_the_name_of_its_directory(tmp_path: Path):
    write_project_job(tmp_path, "name: [", directory="report")
    write_project_job(tmp_path, make_job(name="report"), directory="zulu")
    made = make_catalog(tmp_path)

    assert list_names(made) == STANDARD
    with pytest.raises(DefinitionError, match="Failed to load"):
        made.get("report")


def broken_yaml(folder: Path) -> None:
    (folder / "job.yml").write_text("name: [")


def latin_1(folder: Path) -> None:
    (folder / "job.yml").write_bytes(b"name: Gr\xfc\xdfe")


def nested(folder: Path) -> None:
    (folder / "job.yml").write_text("[" * 4_000)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "job.yml")


def folder_for_a_file(folder: Path) -> None:
    (folder / "job.yml").mkdir()


def link_to_itself(folder: Path) -> None:
    (folder / "job.yml").symlink_to("job.yml")


def link_to_elsewhere(folder: Path) -> None:
    (folder / "job.yml").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    "spoil",
    [broken_yaml, latin_1, nested, pipe, folder_for_a_file, link_to_itself, link_to_elsewhere],
    ids=lambda spoil: spoil.__name__,
)
def test_an_unreadable_job_file_does_not_hide_other_jobs(spoil: Callable[[Path], None], tmp_path: Path):
    write_project_job(tmp_path, make_job(name="alpha"))
    write_project_job(tmp_path, make_job(name="zulu"))
    bad = tmp_path / ".deepwork" / "jobs" / "middle"
    bad.mkdir()
    spoil(bad)

    found, [error] = make_catalog(tmp_path).load_all()

    assert [each.name for each in found] == ["alpha", "zulu", *STANDARD]
    assert (error.job_name, error.job_dir) == ("middle", str(bad))
    assert error.error


def test_a_directory_that_links_to_itself_does_not_hide_other_jobs(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="alpha"))
    (tmp_path / ".deepwork" / "jobs" / "loop").symlink_to("loop")

    found, errors = make_catalog(tmp_path).load_all()

    assert "alpha" in [each.name for each in found]
    assert [error.job_name for error in errors] == ["loop"]


def test_a_job_directory_may_be_a_link(tmp_path: Path):
    elsewhere = write_job(tmp_path / "shared" / "report", make_job())
    (tmp_path / ".deepwork" / "jobs").mkdir(parents=True)
    (tmp_path / ".deepwork" / "jobs" / "report").symlink_to(elsewhere)

    assert make_catalog(tmp_path).get("report").summary == "Write a report."


def test_an_unreadable_folder_is_reported_and_does_not_hide_other_jobs(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")

    found, [error] = make_catalog(tmp_path, tmp_path / "loop").load_all()

    assert [each.name for each in found] == STANDARD
    assert error.job_dir == str(tmp_path / "loop")
    assert "The folder cannot be read" in error.error


def test_a_directory_name_that_is_not_utf_8_is_escaped_in_the_error(tmp_path: Path):
    odd = os.fsencode(tmp_path / ".deepwork" / "jobs") + b"/gr\xfc\xdfe"
    write_job(Path(os.fsdecode(odd)), make_job())

    _, [error] = make_catalog(tmp_path).load_all()

    assert error.job_name == r"gr\xfc\xdfe"
    assert (error.job_dir + error.error).encode()
    assert "is not UTF-8; rename it" in error.error


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../report", "/etc", "jobs/report", "report/", "./report", "a\\b", "a\0b", "REPORT", "x" * 5_000, "\ud800"],
)  # fmt: skip
def test_a_name_is_never_a_path(name: str, tmp_path: Path):
    write_project_job(tmp_path, make_job())
    write_job(tmp_path / ".deepwork", make_job())
    write_job(tmp_path / "report", make_job())

    with pytest.raises(NotFound) as refused:
        make_catalog(tmp_path).get(name)

    assert refused.value.code is Code.JOB_NOT_FOUND
    assert len(refused.value.message) < 2_000


def test_an_absolute_path_to_a_job_is_not_accepted_as_its_name(tmp_path: Path):
    elsewhere = write_job(tmp_path / "elsewhere", make_job())

    with pytest.raises(NotFound):
        make_catalog(tmp_path / "project").get(str(elsewhere))


def test_an_unknown_job_lists_the_available_jobs(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="weekly_report"))

    with pytest.raises(NotFound) as refused:
        make_catalog(tmp_path).get("weekly_raport")

    assert refused.value.suggestion == (
        "Available jobs: 'weekly_report', 'deepwork_jobs', 'hello_review'. Did you mean 'weekly_report'?"
    )


def test_five_hundred_jobs_are_read_once(tmp_path: Path, reads: list[str]):
    for number in range(500):
        write_project_job(tmp_path, make_job(name=f"job_{number:03}"))
    wait_until_cacheable()
    made = make_catalog(tmp_path)

    first, again = made.load_all(), made.load_all()
    made.get("job_250")
    made.get("hello_review")

    assert len(reads) == 502
    assert first == again
    assert len(again[0]) == 502


def test_finding_a_project_job_reads_no_other_job(tmp_path: Path, reads: list[str]):
    for name in ("one", "two", "three"):
        write_project_job(tmp_path, make_job(name=name))

    make_catalog(tmp_path).get("two")

    assert reads == ["two"]


def test_only_changed_jobs_are_read_again(tmp_path: Path, reads: list[str]):
    write_project_job(tmp_path, make_job(name="one"))
    write_project_job(tmp_path, make_job(name="two", summary="Before"))
    wait_until_cacheable()
    made = make_catalog(tmp_path)
    made.load_all()
    reads.clear()

    write_project_job(tmp_path, make_job(name="two", summary="Later!"))
    wait_until_cacheable()

    assert (made.get("two").summary, reads) == ("Later!", ["two"])
    assert [each.summary for each in made.load_all()[0] if each.name == "two"] == ["Later!"]
    assert reads == ["two"]


def test_a_changed_job_is_noticed_immediately(tmp_path: Path):
    made = make_catalog(tmp_path)

    for number in range(20):  # of the same length, and faster than the clock of the file system ticks
        write_project_job(tmp_path, make_job(summary=f"{number:02}"))
        assert made.get("report").summary == f"{number:02}"
        assert made.load_all()[0][0].summary == f"{number:02}"


def test_a_replaced_file_of_the_same_size_and_time_is_detected(tmp_path: Path):
    folder = write_project_job(tmp_path, make_job(summary="Before"))
    made = make_catalog(tmp_path)
    made.load_all()
    status = (folder / "job.yml").stat()

    (folder / "new").write_text((folder / "job.yml").read_text().replace("Before", "Behind"))
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "new").replace(folder / "job.yml")

    assert made.get("report").summary == "Behind"


def test_removed_and_added_jobs_are_detected(tmp_path: Path):
    folder = write_project_job(tmp_path, make_job())
    made = make_catalog(tmp_path)
    before = list_names(made)
    (folder / "job.yml").unlink()
    without = list_names(made)
    write_project_job(tmp_path, make_job())

    assert (before, without, list_names(made)) == (["report", *STANDARD], STANDARD, ["report", *STANDARD])


def test_adding_a_missing_instructions_file_fixes_the_job(tmp_path: Path, reads: list[str]):
    folder = write_project_job(tmp_path, make_job())
    (folder / "steps" / "write.md").unlink()
    wait_until_cacheable()
    made = make_catalog(tmp_path)
    [error] = made.load_all()[1]
    again = made.load_all()[1]
    seen = list(reads)

    (folder / "steps" / "write.md").write_text("Do it.")

    assert "'steps/write.md' does not exist" in error.error
    assert (again, seen.count("report")) == ([error], 1)
    assert list_names(made) == ["report", *STANDARD]


def test_a_broken_job_is_logged_once_until_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    write_project_job(tmp_path, "name: [", directory="bad")
    write_project_job(tmp_path, make_job(make_step("a"), make_step("b"), workflows=[make_workflow("a")]))
    made = make_catalog(tmp_path)

    with caplog.at_level(logging.WARNING, "deepwork"):
        made.load_all()
        made.load_all()
        write_project_job(tmp_path, "name: ]", directory="bad")
        made.load_all()

    logged = [record.getMessage().splitlines()[0] for record in caplog.records]
    assert logged == [
        "Failed to load the job:",
        "Job report: No workflow uses these steps: 'b'.",
        "Failed to load the job:",
    ]


def test_changing_a_returned_list_does_not_change_the_catalog(tmp_path: Path):
    made = make_catalog(tmp_path)
    made.load_all()[0].clear()

    assert list_names(made) == STANDARD
