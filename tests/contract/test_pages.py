"""The pages that list tools, events, errors and settings match the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from scripts import tools_page

import deepwork
from deepwork.edge.cli.main import COMMANDS
from deepwork.kernel.config import load_settings
from deepwork.kernel.config_options import OPTIONS
from deepwork.kernel.errors import Code
from deepwork.kernel.values import CaseInsensitiveEnum

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent


def event_names() -> set[str]:
    """Return the event types of all slices: the values of every class named …Event."""
    for path in Path(deepwork.__path__[0]).rglob("*.py"):
        if "Event(CaseInsensitiveEnum)" in path.read_text(encoding="utf-8"):
            importlib.import_module(
                ".".join(("deepwork", *path.relative_to(deepwork.__path__[0]).with_suffix("").parts))
            )
    kinds = [
        kind
        for kind in CaseInsensitiveEnum.__subclasses__()
        if kind.__name__.endswith("Event") and kind.__module__.startswith("deepwork.")
    ]
    return {str(word) for kind in kinds for word in kind}


def first_column(page: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", (DOCS / page).read_text(), re.MULTILINE))


def test_the_tools_page_matches_the_registry():
    assert tools_page.PAGE.read_text() == tools_page.render_page(), "run `make docs`"


def test_the_events_page_names_every_event_and_no_other():
    assert {name for name in first_column("events.md") if ":" in name} == event_names()


def test_the_errors_page_names_every_code_and_no_other():
    assert first_column("errors.md") == set(Code)


def test_the_settings_page_names_every_setting_with_its_variable():
    text = (DOCS / "settings.md").read_text()

    for option in OPTIONS:
        assert f"| `{option.key}` | `{option.environment_variable}` |" in text


def test_the_example_of_the_settings_page_turns_nothing_off(tmp_path: Path):
    [example] = re.findall(
        r"```yaml title=\"\.deepwork/config\.yml\"\n(.+?)```", (DOCS / "settings.md").read_text(), re.DOTALL
    )
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork/config.yml").write_text(example)

    settings = load_settings(tmp_path, environment={})

    assert (settings.toolsets, settings.tools, settings.exclude_tools) == (("all",), (), ())
    assert not settings.read_only


def test_the_command_line_page_names_every_command():
    text = (DOCS / "command-line.md").read_text()

    assert all(f"deepwork {name}" in text for name in COMMANDS)


def test_all_tools_cost_at_most_7700_tokens():
    registry = tools_page.load_registry()

    assert sum(map(tools_page.count_tokens, registry.values())) <= 7700


def test_links_between_pages_work():
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_readme_fits_on_a_few_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_nothing_names_a_machine_or_a_registry():
    tracked = [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "requirements").iterdir(),
        ROOT / "pyproject.toml",
    ]

    for page in tracked:
        assert not re.search(
            r"https?://\S+/(simple|packages)\b|--(extra-)?index-url|(?<![\w.])/(root|work)/", page.read_text()
        )
