"""Whatever an agent writes is text: nothing of it runs in the page of whoever reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deepwork.server.house import House
from e2e.browsing import Dashboard, Visitor, until
from e2e.make_e2e import at, git
from e2e.payloads import PAYLOADS
from house import ask
from tracking import make_tracking as track

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@dataclass
class Hostile:
    runs: list[str]
    crowd: str
    task: str
    plan: str
    agent: str


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "project"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "first.md").write_text("first\n")
    (folder / ".gitignore").write_text(".deepwork/\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


@pytest.fixture(scope="module")
def hostile(browser: Browser, project: Path) -> Hostile:
    house, _ = at(project)
    try:
        crowd, task = _tasks(house, project)
        return Hostile([_run(house, text) for text in PAYLOADS], crowd, task, *_plan(house))
    finally:
        house.close()


def _run(house: House, text: str) -> str:
    """A run with this text in every field of its own."""
    id = track.workflow(house, name=text, objective=text, scope=text, constraints=text)
    phase = track.phase(house, id, 1, name=text)
    ask(house, "complete_phase", phase_id=phase, status="completed")
    ask(
        house, "complete_workflow", workflow_id=id, status="completed", summary=text, achievements=[text],
        limitations=[text],
    )  # fmt: skip
    return id


def _tasks(house: House, project: Path) -> tuple[str, str]:
    """One run with a task for each text, in every field that a task has; the last changed hostile files."""
    id = track.workflow(house, name="crowd", objective="All of them.")
    where = (id, track.phase(house, id, 1))
    for text in PAYLOADS:
        task = track.task(house, where, text, goal=text, agent_name=text, areas=["src/**"])
        ask(house, "log_milestone", task_id=task, message=text, progress=3)
        ask(
            house, "log_decision", task_id=task, category="other", question=text, chosen=text, reasoning=text,
            options_considered=[text, "b"], trade_offs=text,
        )  # fmt: skip
        track.blocker(house, task, text)
        is_last = text == PAYLOADS[-1]
        if is_last:
            (project / "<img src=x onerror=hacked=1>.md").write_text("\n".join(PAYLOADS))
        outcome = {
            "summary": text, "achievements": [text], "limitations": [text], "next_steps": [text],
            "manual_review_needed": True, "manual_review_reason": text,
        }  # fmt: skip
        track.complete(
            house, task, outcome=outcome, metadata={"packages_added": [text], "commands_executed": [text]}
        )
    return id, task


def _plan(house: House) -> tuple[str, str]:
    """A plan with a task, and an agent with a message, for each text."""
    joined = "\n".join(PAYLOADS)
    id = ask(house, "workflow_create", name=PAYLOADS[1], source_type="prompt", source_content=joined)["id"]
    tasks = [{"name": text, "description": text, "sequence": 1} for text in PAYLOADS]
    ask(
        house, "workflow_set_plan", id=id,
        plan={"summary": joined, "approach": joined, "risks": list(PAYLOADS), "assumptions": list(PAYLOADS), "tasks": tasks},
    )  # fmt: skip
    for text in PAYLOADS:
        agent: str = ask(house, "agent_register", name=text, runtime="codex", capabilities=[text])["id"]
    for text in PAYLOADS:
        ask(
            house, "message_send", sender_id=agent, recipient_id=agent, message_type="notification", subject=text,
            body=text,
        )  # fmt: skip
    return id, agent


def addresses(hostile: Hostile) -> list[str]:
    crowd = f"/runs/{hostile.crowd}"
    return [
        "/", "/runs?limit=100", "/blockers", "/decisions", "/agents", f"/agents?agent={hostile.agent}", "/plans", "/jobs",
        *(f"{crowd}?tab={tab}" for tab in ("timeline", "graph", "tasks", "files", "decisions", "issues", "log")),
        f"{crowd}?tab=log&event=20", f"{crowd}?tab=timeline&group=agent", f"/tasks/{hostile.task}",
        f"{crowd}?tab=timeline&task={hostile.task}", f"/runs/{hostile.plan}?tab=graph", f"/runs/{hostile.plan}?tab=tasks",
        "/runs?q=%3Cscript%3Ehacked%3D1%3C%2Fscript%3E", "/agents?agent=%3Cimg%20src%3Dx%20onerror%3Dhacked%3D1%3E",
        f"{crowd}?tab=%3Cscript%3E&zoom=%3C&fold=%22%3E%3Cscript%3E&task=%3Cscript%3Ehacked%3D1%3C%2Fscript%3E",
    ]  # fmt: skip


_SUSPECTS = """() => {
    const links = ['href', 'src', 'srcdoc', 'action', 'formaction', 'data', 'xlink:href'];
    const foreign = ['IFRAME', 'OBJECT', 'EMBED', 'IMG', 'VIDEO', 'AUDIO', 'BASE'];
    const isOdd = ({name, value}) => name.startsWith('on') || (links.includes(name) && !/^(\\/|#|https:)/.test(value));
    return [...document.body.querySelectorAll('*')]
        .filter(element => [...element.attributes].some(isOdd) || foreign.includes(element.tagName) || element.tagName === 'SCRIPT')
        .map(element => element.outerHTML.slice(0, 120));
}"""


def test_what_agents_write_is_shown_as_text_and_none_of_it_runs(
    browser: Browser, project: Path, hostile: Hostile
) -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 60
    suspects = []
    with Dashboard(project) as dashboard, Visitor(browser, dashboard) as visitor:
        for address in addresses(hostile):
            visitor.open(address)
            suspects += visitor.page.evaluate(_SUSPECTS)
        for run in hostile.runs:
            visitor.page.evaluate(
                "to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')) }",
                f"/runs/{run}",
            )
            visitor.page.wait_for_selector(f"main .crumbs code:text-is('{run}')")
            suspects += visitor.page.evaluate(_SUSPECTS)

        # And it is all there, as it was written.
        visitor.open(f"/runs/{hostile.runs[0]}")
        assert visitor.page.locator("h1").inner_text() == PAYLOADS[0]
        visitor.open(f"/tasks/{hostile.task}")
        until(
            lambda: visitor.page.locator(".diff .line-text", has_text=PAYLOADS[1]).count(),
            "no diff was shown",
        )

        assert suspects == []
        assert visitor.page.evaluate("window.hacked") is None
        # A refused script would be told of here; what is not found is an answer.
        assert [said for said in visitor.troubles if "404" not in said and "400" not in said] == []
        assert visitor.foreign == []
