"""The page about reviews is held to the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from deepwork.edge.cli.review import review
from deepwork.gates.reviews import rule_file
from deepwork.gates.reviews.models import Strategy
from deepwork.gates.reviews.rule_file import RuleFile
from deepwork.kernel.files.definition_models import build_schema
from reviews.make import ReviewProject, load_rules

DOCS = Path(__file__).parents[2] / "docs"
HOWTO = DOCS / "howto" / "review-changes.md"
[EXAMPLE] = re.findall(r"```yaml\n(python:.*?)```", HOWTO.read_text(), re.DOTALL)


def keys(rule: Any) -> Iterator[str]:
    """Every key that some part of a `.deepreview` may have."""
    if isinstance(rule, dict):
        yield from rule.get("properties", {})
        for inner in rule.values():
            yield from keys(inner)
    elif isinstance(rule, list):
        for inner in rule:
            yield from keys(inner)


def project(root: Path, text: str = EXAMPLE) -> ReviewProject:
    made = ReviewProject(root)
    made.write("docs/how-we-write.md", ".deepreview", content="Plainly.")
    made.write(".deepreview", content=text)
    return made


def test_the_howto_names_every_key_and_every_strategy():
    text = HOWTO.read_text()

    assert {key for key in keys(build_schema(RuleFile)) if not re.search(rf"\b{key}\b", text)} == set()
    assert {strategy for strategy in Strategy if f"`{strategy}`" not in text} == set()


def test_the_example_in_the_howto_has_two_rules(tmp_path: Path):
    found = load_rules(project(tmp_path).root)

    assert [rule.name for rule in found.rules] == ["python", "pages"]
    assert found.problems == ()


def test_the_output_shown_in_the_howto_matches_the_command(tmp_path: Path):
    def printed(root: Path) -> str:
        return CliRunner(env={"COLUMNS": "200"}).invoke(review, ["rules", "--path", str(root)]).stdout

    listed = printed(project(tmp_path / "good").root)
    complained = printed(project(tmp_path / "bad", EXAMPLE.replace("individual", "each")).root)

    assert f"$ deepwork review rules\n{listed}" in HOWTO.read_text()
    [complaint] = [line for line in complained.splitlines() if "'each'" in line]
    assert f"```text\n{complaint}\n```" in HOWTO.read_text()


def test_the_howto_and_the_command_line_page_name_every_option():
    text = HOWTO.read_text() + (DOCS / "command-line.md").read_text()
    commands = [review, *review.commands.values()]
    options = {
        option
        for command in commands
        for each in command.params
        for option in each.opts
        if option[:2] == "--"
    }

    assert {option for option in options if option not in text} == set()
    assert all(name in text for name in review.commands)


def test_the_schema_is_at_the_path_in_the_howto():
    [(name, package)] = re.findall(r"`(\S+\.json)` from the installed package\s+`(\S+)`", HOWTO.read_text())

    assert (DOCS.parent / "src" / package / name).samefile(
        Path(rule_file.__file__).with_name("deepreview.schema.json")
    )
