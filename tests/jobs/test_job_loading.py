"""A folder is a job, or there is one clear sentence about why not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepwork.kernel.errors import Code, DefinitionError
from deepwork.kernel.files.definition_models import validate_data
from deepwork.work.jobs.definitions.catalog import find_problems, load_job, read_instructions
from deepwork.work.jobs.definitions.job_file import JobDefinition
from jobs.make import INFO, make_job, make_step, write_job


def get_error(folder: Path) -> str:
    with pytest.raises(DefinitionError) as refused:
        load_job(folder)
    return refused.value.message


def make_job_with_instructions(path: str) -> dict[str, Any]:
    return make_job(make_step("a", instructions_file=path))


def test_a_missing_job_folder_is_reported(tmp_path: Path):
    assert "does not exist" in get_error(tmp_path / "none")


def test_a_file_in_place_of_a_job_folder_is_reported(tmp_path: Path):
    (tmp_path / "job").write_text("x")

    assert "not a directory" in get_error(tmp_path / "job")


def test_a_job_folder_without_a_job_file_is_reported(tmp_path: Path):
    assert "job.yml not found" in get_error(tmp_path)


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)

UNREADABLE = {
    "not YAML": ("name: [", ":1: "),
    "a tab": ("name: x\n\tversion: y", ":2: "),
    "a list": ("- a\n- b\n", ":1: A job must be a mapping"),
    "a word": ("hello", ":1: A job must be a mapping"),
    "a key twice": ("name: a\nname: b\n", ":2: The key 'name' occurs twice"),
    "two documents": ("name: a\n---\nname: b\n", ":2: A second document"),
    "a tag": ("name: !!python/object/apply:os.system ['true']\n", ":1: The tag"),
    "deep nesting": ("[" * 4_000, "nested deeper"),
    "a bomb of aliases": (BOMB, "values"),
    "too large": ("# " + "x" * 2**20, "larger than"),
    "a NUL": ("name: a\0b", ":1: "),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_content_is_reported_with_its_line(text: str, expected: str, tmp_path: Path):
    message = get_error(write_job(tmp_path, text))

    assert message.startswith("Failed to load the job:\n")
    assert f"{tmp_path}/job.yml" in message
    assert expected in message


def test_another_encoding_is_reported_with_its_line(tmp_path: Path):
    (tmp_path / "job.yml").write_bytes(b"name: x\nsummary: Gr\xfc\xdfe\n")

    assert f"{tmp_path}/job.yml:2: The text is not UTF-8" in get_error(tmp_path)


def test_a_byte_order_mark_and_windows_line_endings_are_accepted(tmp_path: Path):
    write_job(tmp_path, make_job())
    text = (tmp_path / "job.yml").read_bytes()
    (tmp_path / "job.yml").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))

    assert load_job(tmp_path).name == "report"


def test_an_empty_file_is_reported_as_missing_every_key(tmp_path: Path):
    message = get_error(write_job(tmp_path, ""))

    assert message.startswith("Job validation failed:\n")
    assert all(
        f"the key '{key}' is missing" in message for key in ("name", "version", "summary", INFO, "steps")
    )


def test_a_job_file_that_is_a_pipe_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "job.yml")

    assert "Failed to load" in get_error(tmp_path)


def test_a_job_file_that_links_outside_its_folder_is_not_read(tmp_path: Path):
    (tmp_path / "secret").write_text("name: stolen\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.yml").symlink_to(tmp_path / "secret")

    message = get_error(tmp_path / "job")

    assert "points outside the job's folder" in message
    assert "stolen" not in message


def test_a_missing_instructions_file_is_a_problem_of_the_job(tmp_path: Path):
    write_job(tmp_path, make_job())
    (tmp_path / "steps" / "write.md").unlink()

    [line] = find_problems(tmp_path)

    assert ": steps -> 0 -> instructions_file: the path 'steps/write.md' does not exist; " in line


@pytest.mark.parametrize(
    "path",
    ["../secret", "../../etc/hostname", "/etc/hostname", "steps/../../secret", "link.md", "folder/secret"],
)
def test_instructions_outside_the_job_folder_are_refused(path: str, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    folder = write_job(tmp_path / "job", make_job_with_instructions("steps/a.md"))
    (folder / "link.md").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    text = (folder / "job.yml").read_text()
    (folder / "job.yml").write_text(text.replace("steps/a.md", path))

    [line] = find_problems(folder)

    assert "points outside the job's folder; move the file into the job's folder" in line


def test_a_link_within_the_job_folder_is_followed(tmp_path: Path):
    folder = write_job(tmp_path, make_job_with_instructions("steps/a.md"))
    (folder / "steps" / "a.md").rename(folder / "real.md")
    (folder / "steps" / "a.md").symlink_to("../real.md")

    loaded = load_job(folder)

    assert read_instructions(loaded, loaded.steps[0]).startswith("# a")


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"Gr\xfc\xdfe", "is not UTF-8 text"), (b"x" * (2**20 + 1), "is larger than 1,048,576 bytes")],
)
def test_instructions_must_be_utf_8_text_of_at_most_one_mebibyte(
    content: bytes, expected: str, tmp_path: Path
):
    folder = write_job(tmp_path, make_job_with_instructions("steps/a.md"))
    (folder / "steps" / "a.md").write_bytes(content)

    [line] = find_problems(folder)

    assert expected in line


@pytest.mark.parametrize("path", ["steps", ".", "pipe"])
def test_instructions_must_be_a_regular_file(path: str, tmp_path: Path):
    folder = write_job(tmp_path, make_job_with_instructions("steps/a.md"))
    os.mkfifo(folder / "pipe")
    text = (folder / "job.yml").read_text()
    (folder / "job.yml").write_text(text.replace("steps/a.md", path))

    [line] = find_problems(folder)

    assert "is not a regular file" in line


def test_instructions_are_returned_unchanged(tmp_path: Path):
    folder = write_job(tmp_path, make_job_with_instructions("steps/a.md"))
    (folder / "steps" / "a.md").write_text("  Grüße\r\n\n", encoding="utf-8", newline="")
    loaded = load_job(folder)

    assert read_instructions(loaded, loaded.steps[0]) == "  Grüße\r\n\n"


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda path, secret: path.unlink(), Code.INVALID_INPUT),
        (lambda path, secret: (path.unlink(), path.symlink_to(secret)), Code.PATH_OUTSIDE_PROJECT),
        (lambda path, secret: path.write_bytes(b"x" * (2**20 + 1)), Code.TOO_LARGE),
    ],
)
def test_instructions_that_became_unreadable_after_loading_are_reported(
    break_it: Any, code: Code, tmp_path: Path
):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = write_job(tmp_path / "job", make_job_with_instructions("steps/a.md"))
    loaded = load_job(folder)
    break_it(folder / "steps" / "a.md", secret)

    with pytest.raises(DefinitionError) as refused:
        read_instructions(loaded, loaded.steps[0])

    assert refused.value.code is code
    assert refused.value.message.startswith(f"{folder}/job.yml: Step 'a' has no instructions: ")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(["a", "b", "step"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "id", "steps", "outputs", "reviews", "inputs", "file", "from_step", "dependencies",
                 "workflows", "run_each", "quality_criteria", "type", "hooks", "stop_hooks", "instructions_file"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(changes=st.dictionaries(st.sampled_from([*make_job(), "description", "x"]), ANYTHING, max_size=3))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_document_loads_or_is_reported_as_invalid(changes: dict[str, Any], tmp_path: Path):
    """Whatever stands in the file: a job, or lines about it, and never another exception."""
    folder = write_job(tmp_path, make_job() | changes)

    found = find_problems(folder)

    assert bool(found) or load_job(folder).steps
    assert not validate_data(JobDefinition, make_job() | changes)[1] or found
