"""The pages about the architecture name only what exists, and the website draws their diagrams."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from scripts.pages import DOCS, ROOT
from scripts.sequence_diagrams import Diagram, DiagramError, Step, draw, find_diagrams, read_diagram

SOURCE = ROOT / "src" / "deepwork"
PAGES = [DOCS / "architecture.md", *sorted((DOCS / "architecture").glob("*.md")), ROOT / "CONTRIBUTING.md"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
CALLED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)?)\(\)")
LIVES = [(page, diagram) for page in PAGES for diagram in find_diagrams(page.read_text(encoding="utf-8"))]


@cache
def list_definitions(place: Path) -> frozenset[str]:
    """List the functions of a module or package, and its classes with their methods, also inherited ones."""
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    found: set[str] = set()
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, Function | ast.ClassDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                methods = list_methods(node).union(*(map_methods().get(base, ()) for base in bases))
                found |= {f"{node.name}.{name}" for name in methods}
    return frozenset(found)


@cache
def map_methods() -> dict[str, set[str]]:
    """Return the methods of each class."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: list_methods(node) for node in classes}


def list_methods(definition: ast.ClassDef) -> set[str]:
    return {each.name for each in definition.body if isinstance(each, Function)}


def find_missing(diagram: Diagram) -> list[str]:
    """List modules that do not exist, and functions that neither side of their arrow has."""
    places = {name: SOURCE / label for name, label in diagram.parts.items() if "/" in label}
    missing = [str(place) for place in places.values() if not place.exists()]
    for step in diagram.steps:
        sides = [places[name] for name in (step.source, step.target) if name in places]
        known = frozenset[str]().union(*map(list_definitions, sides))
        missing += [f"{name} in: {step.text}" for name in CALLED.findall(step.text) if name not in known]
    return missing


@pytest.mark.parametrize(("page", "diagram"), LIVES, ids=lambda each: getattr(each, "stem", None))
def test_a_life_has_ten_steps_and_names_what_exists(page: Path, diagram: Diagram):
    assert find_missing(diagram) == [], page
    assert len(diagram.steps) == 10
    assert all(CALLED.search(step.text) for step in diagram.steps if not step.is_answer)


def test_a_name_that_does_not_exist_is_found():
    wrong = "sequenceDiagram\nparticipant a as work/plans\nparticipant b as work/nowhere\na->>a: TaskTools.claim()\n"

    assert find_missing(read_diagram(wrong)) == [
        str(SOURCE / "work/nowhere"),
        "TaskTools.claim in: TaskTools.claim()",
    ]


def test_the_six_requests_that_are_measured_have_a_diagram():
    shown = " ".join(step.text for _, diagram in LIVES for step in diagram.steps)

    for called in (
        "task_claim",
        "task_update_status",
        "finished_step",
        "land_work",
        "give_approval",
        "start_plan",
    ):
        assert f"{called}()" in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_files_and_names_of_a_page_exist(page: Path):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([^`\n]+)`", text)

    assert [name for name in named if is_path(name) and not has_file(name)] == []
    assert [name for name in named if is_class(name) and name.split(".")[0] not in read_words()] == []


def is_path(name: str) -> bool:
    return name.endswith((".py", "/")) and not re.search(r"[ …<>*]|^refs/", name)


def has_file(name: str) -> bool:
    """Return whether a page may name this: a path in the repository or the source, or the end of one."""
    if (ROOT / name).exists() or (SOURCE / name).exists():
        return True
    return any(found.match(name) for found in list_sources())


def is_class(name: str) -> bool:
    return re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*(\.\w+)?", name) is not None


@cache
def list_sources() -> tuple[Path, ...]:
    return (*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))


@cache
def read_words() -> frozenset[str]:
    texts = (file.read_text(encoding="utf-8") for file in list_sources())
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def test_architecture_is_one_page_and_one_for_each_floor():
    floors = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}

    assert {page.stem for page in (DOCS / "architecture").glob("*.md")} == floors
    assert len((DOCS / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_tree_of_the_source_is_shown_as_it_is():
    """Each line of the listing is a folder or a module, below the one that it is indented under."""
    shown = (DOCS / "architecture.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    path: list[str] = []
    for line in shown.splitlines()[1:]:
        indent, name = re.match(r"([│ ]*)[├└]── (\S+)", line).groups()  # type: ignore[union-attr]
        path[len(indent) // 4 :] = [name.rstrip("/")]
        assert SOURCE.joinpath(*path).exists(), line


def test_a_diagram_becomes_a_picture_with_its_words():
    diagram = Diagram(
        {"a": "Person", "b": "work/plans"},
        (Step("a", "b", "asks <b>", is_answer=False), Step("b", "b", "thinks", is_answer=False)),
    )

    drawn = draw(diagram)

    assert drawn.startswith("<div")
    assert "1. asks &lt;b&gt;" in drawn
    assert "2. thinks" in drawn
    assert "\n\n" not in drawn  # a blank line would end the HTML in Markdown


@pytest.mark.parametrize("text", ["flowchart LR\n", "sequenceDiagram\nloop\n", "sequenceDiagram\na->>b: x\n"])
def test_what_would_not_be_drawn_is_refused(text: str):
    with pytest.raises(DiagramError):
        read_diagram(text)
