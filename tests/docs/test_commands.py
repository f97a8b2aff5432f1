"""Runs every command of every page in a new project, and compares its output with the page."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.pages import ROOT, Block, Step, list_pages, parse_blocks, parse_steps

from docs.page_output import PageIds
from docs.terminal import CommandFailed, Terminal

DATABASE_IN_PAGES = "postgresql://deepwork@db.example/deepwork"
PAGES = [
    page
    for page in list_pages()
    if any(block.is_commands or block.language == "python" for block in parse_blocks(page))
]


def is_read_first(page: Path) -> bool:
    """Return whether newcomers follow this page: their commands run in every `make test`."""
    return page.parent == ROOT or page.parent.name == "tutorials" or page.stem in ("quickstart", "do")


@pytest.fixture
def team_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database on a real PostgreSQL, for pages that use one."""
    import psycopg

    url: str = request.getfixturevalue("postgres_url")
    name = f"docs_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield url.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.timeout(900)  # pages may be long; each command has its own timeout
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if is_read_first(page) else pytest.mark.thorough) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path, request: pytest.FixtureRequest):
    found = parse_blocks(page)
    stand_ins = {}
    if any(DATABASE_IN_PAGES in block.text and not block.why_not_run for block in found if block.is_commands):
        stand_ins[DATABASE_IN_PAGES] = request.getfixturevalue("team_database")

    with Terminal(tmp_path, stand_ins) as terminal:
        names = PageIds()
        failure = ""
        try:
            for block in found:
                follow(block, terminal, names)
        except CommandFailed as failed:
            failure = str(failed)
        if failure:  # without a traceback: only the place on the page matters
            pytest.fail(failure, pytrace=False)
        assert terminal.list_ended_early() == []


def follow(block: Block, terminal: Terminal, names: PageIds) -> None:
    """Execute a block: write its file, run its program or run its commands."""
    if block.why_not_run:
        return
    if block.title:
        keep(block, terminal.folder / block.title, terminal, names)
    elif block.language == "python":
        program = terminal.home / f"example-{block.line}.py"
        keep(block, program, terminal, names)
        run(Step(f"python {program}", "", block.line), block, terminal, names)
    if block.is_commands:
        *first, last = parse_steps(block)
        for step in first:
            run(step, block, terminal, names)
        if block.stays:
            leave_running(last, block, terminal, names)
        else:
            run(last, block, terminal, names, int(block.attributes.get("exit", "0")))


def keep(block: Block, file: Path, terminal: Terminal, names: PageIds) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(names.substitute_ids(terminal.to_real_paths(block.text)), encoding="utf-8")


def run(step: Step, block: Block, terminal: Terminal, names: PageIds, expected: int = 0) -> None:
    code, printed = terminal.run(names.substitute_ids(step.command))
    if code != expected:
        raise CommandFailed(
            f"{place(step, block)}\n$ {step.command}\nended with {code}, not {expected}:\n{printed}"
        )
    compare(step, block, names, printed)


def leave_running(step: Step, block: Block, terminal: Terminal, names: PageIds) -> None:
    if not step.shown:
        raise CommandFailed(
            f"{place(step, block)}\nShow a line of its output, so that the test knows that it started."
        )

    def is_enough(printed: str) -> bool:
        return printed.count("\n") >= len(step.shown.splitlines())

    printed = terminal.leave_running(names.substitute_ids(step.command), is_enough)
    compare(step, block, names, printed, goes_on=True)


def compare(step: Step, block: Block, names: PageIds, printed: str, *, goes_on: bool = False) -> None:
    difference = names.match_output(step.shown, printed, goes_on=goes_on) if step.shown else ""
    if difference:
        raise CommandFailed(f"{place(step, block)}\n$ {step.command}\n{difference}")


def place(step: Step, block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{step.line}"
