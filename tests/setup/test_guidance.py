"""The guidance section: short, only about enabled tools, and nothing outside the marks changes."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from deepwork.edge.server.application import Application
from deepwork.edge.server.prompts import build_instructions
from deepwork.edge.server.registry import select_tools
from deepwork.kernel.config import load_settings
from deepwork.views.setup import guidance
from deepwork.views.setup.jsonc import UnreadableText

TOOLSETS = ("agents", "jobs", "messages", "plans", "reviews", "templates", "tracking", "workspaces")
WORDS = {"step_instructions", "needs_work", "workflow_complete", "suggestion", "deepwork"}
"""Words in backquotes that are not tools."""


def test_guidance_names_only_tools_of_the_selected_toolsets(tmp_path):
    for size in range(1, len(TOOLSETS) + 1):
        for some in itertools.combinations(TOOLSETS, size):
            named = set(re.findall(r"`(\w+)`", guidance.render_section(some))) - WORDS
            if size in (1, 2, len(TOOLSETS)):
                settings = load_settings(
                    tmp_path, {"toolsets": some, "database": "unused.db"}, environment={}
                )
                offered = set(select_tools(Application(settings).registry, settings))
            else:
                offered = {tool for one in some for tool in _list_offered(one, tmp_path)}
            assert named <= offered, (some, named - offered)


def _list_offered(toolset: str, folder, known: dict[str, set[str]] = {}) -> set[str]:  # noqa: B006
    if toolset not in known:
        settings = load_settings(folder, {"toolsets": (toolset,), "database": "unused.db"}, environment={})
        known[toolset] = set(select_tools(Application(settings).registry, settings))
    return known[toolset]


def test_guidance_costs_at_most_200_tokens():
    whole = guidance.insert_section("", guidance.render_section(TOOLSETS))

    assert openai.o200k_base().count(whole) <= 200


def test_guidance_does_not_repeat_the_instructions_of_the_server():
    instructions = build_instructions(TOOLSETS)

    sentences = re.split(r"[.:;\n]\s*", guidance.render_section(TOOLSETS))
    named = set(re.findall(r"`(\w+)`", guidance.render_section(TOOLSETS))) - {"deepwork"}

    assert not [each for each in sentences if len(each) > 20 and each in instructions]
    assert named == {"get_workflows", "workflow_list", "log_issue"}


_pages = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.lists(st.sampled_from(["# Ours", "", "text", "<!-- mark -->", "```"]), max_size=5).flatmap(
        lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
    ),
)


@given(_pages, _pages.map(lambda text: text.replace("\r", "")))
def test_inserting_and_removing_the_section_keeps_the_page(page: str, body: str):
    new = guidance.insert_section(page, f"{body}.")

    assert new.startswith(page)
    assert guidance.remove_section(new).rstrip("\r\n") == page.rstrip("\r\n")
    assert guidance.insert_section(new, f"{body}.") == new


@given(_pages, _pages)
@example("\r", "")
def test_inserting_again_replaces_only_the_old_section(before: str, after: str):
    new = guidance.insert_section(before or "# Ours\n", "old") + "\n" + after

    changed = guidance.insert_section(new, "new")

    assert changed == new.replace("old\n", "new\n").replace("old\r\n", "new\r\n") or "old" in before + after


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("a\n<!-- deepwork:begin -->\n", 2),
        ("<!-- deepwork:end -->", 1),
        ("<!-- deepwork:begin -->\n<!-- deepwork:begin -->\n<!-- deepwork:end -->", 2),
    ],
)
def test_an_incomplete_section_is_refused(page: str, line: int):
    with pytest.raises(UnreadableText) as error:
        guidance.insert_section(page, "x")

    assert error.value.line == line
