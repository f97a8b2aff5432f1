"""The review page under a real run: a comment on a line reaches the session that did the work, and it comes back fixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cli.run import run_deepwork
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.trusting import pin_checks
from e2e.browser import AXE, Dashboard, Visitor, run_in_thread
from runner.run_project import RunProject
from workspaces.make import run_git

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHECKS = "checks:\n  tests: {run: [sh, -c, 'test -e src/rates.py']}\n"
TEST = "def test_rate():\n    assert rate('book') == 7\n    assert rate('car') == 19\n"
CODE = "def rate(kind):\n    # In percent.\n    return {'book': 7}.get(kind, 19)\n"
WORDS = "Name the unit in the function."
FIXED = CODE.replace("def rate(kind)", "def rate_percent(kind)")


def write(file: str, text: str) -> dict[str, str]:
    return {"do": "write", "file": file, "text": text}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunProject]:
    """Two finished tasks: one wrote code and weakened a test, the other one is small and checked."""
    made = RunProject(tmp_path_factory.mktemp("review"), checks=CHECKS)
    (made.folder / "tests").mkdir()
    (made.folder / "tests/test_rates.py").write_text(TEST)
    run_git(made.folder, "add", "-f", "tests")
    run_git(made.folder, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "Add a test", "--", "tests")
    with pytest.MonkeyPatch.context() as patch:  # what the person who runs the agents trusts
        patch.setenv("XDG_CONFIG_HOME", made.variables["XDG_CONFIG_HOME"])
        pin_checks(made.folder, parse_checks(CHECKS.encode()), proof="token", trusted_at="now")
    weaker = TEST.replace("    assert rate('car') == 19\n", "").replace("def", "@pytest.mark.skip\ndef")
    tasks = [
        {"name": "Rates", "approval": ["after"], "checks": ["tests"]},
        {"name": "Words", "depends_on": [], "checks": ["tests"]},
    ]
    script = {
        "Rates": [
            [write("src/rates.py", CODE), write("tests/test_rates.py", weaker), {"do": "exit", "text": "Wrote **rates**."}],
            [write("src/rates.py", FIXED), write("tests/test_rates.py", TEST), {"do": "exit", "text": "Renamed it."}],
        ],
        "Words": [[write("src/rates.py", CODE), {"do": "exit", "text": "Words."}]],
    }  # fmt: skip
    run_in_thread(lambda: made.set_plan(tasks, script))
    made.run("--agent", "claude")
    yield made
    made.close()


@pytest.fixture(scope="module")
def bench(project: RunProject) -> Iterator[Dashboard]:
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # approving proves the checks again, as this person trusts them
        patch.setenv("XDG_CONFIG_HOME", project.variables["XDG_CONFIG_HOME"])
        with Dashboard(project.folder) as dashboard:
            yield dashboard


@pytest.fixture
def visitor(browser: Browser, bench: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, bench) as visiting:
        yield visiting
        assert visiting.troubles == []
        assert visiting.foreign == []


def test_a_comment_on_a_line_comes_back_fixed_and_checked_and_keys_do_it_all(
    project: RunProject, bench: Dashboard, visitor: Visitor
) -> None:
    page, task = visitor.page, project.ids["Rates"]
    visitor.open("/review")
    page.wait_for_selector(f'[data-id="{task}"]')
    assert page.locator(".review-top").inner_text().find("2 of 2 unreviewed") > 0
    page.keyboard.press("j")

    # What weakens tests stands first, and code is coloured.
    page.wait_for_selector(".review-weak")
    kinds = page.locator(".review-weak li").all_inner_texts()
    page.wait_for_selector(".review-diff .hl-keyword")
    page.evaluate(AXE.read_text())
    broken = page.evaluate("axe.run(document).then((found) => found.violations.map((each) => each.id))")
    assert (len(kinds), broken) == (2, [])

    # The next file, a line, and words that survive a reload.
    page.keyboard.press("n")
    page.locator('[data-file="src/rates.py"] .review-line[data-line="1"]').focus()
    page.keyboard.press("c")
    page.keyboard.type(WORDS)
    page.reload()
    page.locator('[data-file="src/rates.py"] .review-line[data-line="1"]').click()
    assert page.locator(".review-box textarea").input_value() == WORDS
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result .result")
    page.wait_for_selector(".review-comment")

    again = project.run("--agent", "claude")
    prompts = [entry for entry in project.agents.read_ledger() if entry.name == "Rates"]

    # It comes back to the queue with what changed since, checked.
    visitor.open(f"/review?item={task}")
    page.wait_for_selector("text=the agent heard it")
    page.wait_for_selector("text=Round 2")
    assert page.locator(".review-weak").count() == 0
    page.get_by_role("link", name="Since your comments").click()
    page.wait_for_selector('[data-file="src/rates.py"] .is-added >> text=rate_percent')
    page.get_by_role("link", name="Rounds side by side").click()
    page.wait_for_selector('section[aria-label="Round 1"] [data-file="tests/test_rates.py"]')
    assert page.locator('section[aria-label="Round 2"] [data-file="tests/test_rates.py"]').count() == 0
    assert (again.code, [each.start["resumed"] for each in prompts]) == (0, [False, True]) or again.out
    page.get_by_role("link", name="All changes").click()
    page.wait_for_selector(".review-line")
    page.keyboard.press("a")
    page.wait_for_selector("#result >> text=Approved: Rates")
    page.wait_for_selector(".review-top >> text=1 of 2 unreviewed")

    comments = json.loads(
        run_deepwork(project.folder, "comment", "Rates", "--json", environment=project.variables).out
    )
    assert [each["state"] for each in comments["comments"]] == ["fixed"]


def test_low_risk_work_is_decided_in_one_go_and_words_refuse_work(
    project: RunProject, visitor: Visitor
) -> None:
    page, task = visitor.page, project.ids["Words"]
    visitor.open(f"/review?item={task}")
    page.wait_for_selector(".review-line")

    page.keyboard.press("b")
    page.keyboard.type("Not yet.")
    page.keyboard.press("Escape")
    page.wait_for_selector(f'[data-id="{task}"] >> text=draft')
    page.keyboard.press("x")
    page.wait_for_selector(".review-chosen")
    page.keyboard.press("a")

    page.wait_for_selector("#result >> text=Reviewed: Words")
    visitor.open("/review?show=reviewed")
    page.wait_for_selector(f'[data-id="{task}"]')
