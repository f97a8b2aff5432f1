"""An answer lists as many reviews as an agent can read; the others follow when these have passed."""

from __future__ import annotations

from pathlib import Path

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.gates.reviews.rendering import MAX_REVIEWS, MAX_TASK_BYTES
from reviews.make import FOLDER, make_project, make_rule_data


def create_files(root: Path, count: int, name: str = "") -> None:
    project = make_project(root, python=make_rule_data("**/*.py"))
    for number in range(count):
        project.write(f"src/{name}{number:03}.py", content=f"{number}\n")


def test_an_answer_with_many_reviews_is_cut_and_says_so(app: Application, tmp_path: Path):
    create_files(tmp_path, MAX_REVIEWS + 5)

    answer = call_tool(app, "get_review_instructions")

    assert answer.count("description: ") == MAX_REVIEWS
    assert "This list was truncated: 5 more reviews are due." in answer
    assert len(list((tmp_path / FOLDER).glob("rv_*.md"))) == MAX_REVIEWS


def test_the_other_reviews_follow_when_the_first_have_passed(app: Application, tmp_path: Path):
    create_files(tmp_path, MAX_REVIEWS + 1)
    call_tool(app, "get_review_instructions")
    for file in (tmp_path / FOLDER).glob("rv_*.md"):
        call_tool(app, "mark_review_passed", review_id=file.stem)

    answer = call_tool(app, "get_review_instructions")

    assert answer.count("description: ") == 1
    assert "truncated" not in answer
    assert f"{MAX_REVIEWS} reviews were left out" in answer


def test_long_names_are_counted(app: Application, tmp_path: Path):
    create_files(tmp_path, 150, name="x" * 200 + "/" + "y" * 240)

    answer = call_tool(app, "get_review_instructions")

    assert len(answer.encode()) < MAX_TASK_BYTES + 1024
    assert "This list was truncated" in answer


def test_a_folder_is_all_its_files_and_no_others(app: Application, tmp_path: Path):
    project = make_project(tmp_path, python=make_rule_data("**/*.py"))
    for file in ("a/b.py", "a/b/c.py", "a/b-c.py", "a/b0.py", "ab.py"):
        project.write(file)

    answer = call_tool(app, "get_review_instructions", files=["a/b", "a/b.py"])

    assert sorted(line.split(" of ")[1] for line in answer.splitlines() if "review of" in line) == [
        'a/b.py"', 'a/b/c.py"'
    ]  # fmt: skip
