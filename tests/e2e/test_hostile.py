"""Text from agents is shown as text: none of it runs in the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import Clock, call_tool
from dashboard.make_agent_runs import add_attempt, start_run
from deepwork.delivery.runner.models import RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor, run_in_thread, wait_until
from e2e.make import open_app, open_app_with_reviewer, run_git
from e2e.payloads import PAYLOADS
from jobs import project as jobs
from jobs.runs import call_job_tool as ask_job
from jobs.runs import start_job as begin_job
from tracking import make as track

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@dataclass
class Hostile:
    runs: list[str]
    crowd: str
    task: str
    plan: str
    agent: str
    job: str
    aborted: str


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "project"
    folder.mkdir()
    (folder / "first.md").write_text("first\n")
    return folder


@pytest.fixture(scope="module")
def hostile(project: Path) -> Hostile:
    app, clock = open_app(project)
    try:
        crowd, task = _make_tasks(app, project)
        runs = [_make_run(app, text) for text in PAYLOADS]
        return Hostile(
            runs, crowd, task, *_make_plan(app), *run_in_thread(lambda: _make_sessions(project, clock))
        )
    finally:
        app.close()


def _make_run(app: Application, text: str) -> str:
    """Make a run with this text in each of its fields."""
    id = track.create_workflow(app, name=text, objective=text, scope=text, constraints=text)
    phase = track.create_phase(app, id, 1, name=text)
    call_tool(app, "complete_phase", phase_id=phase, status="completed")
    call_tool(
        app, "complete_workflow", workflow_id=id, status="completed", summary=text, achievements=[text],
        limitations=[text],
    )  # fmt: skip
    return id


def _make_tasks(app: Application, project: Path) -> tuple[str, str]:
    """Make a run with a task for each payload in all of its fields; the last one changed hostile files."""
    id = track.create_workflow(app, name="crowd", objective="All of them.")
    where = (id, track.create_phase(app, id, 1))
    for text in PAYLOADS:
        if is_last := text == PAYLOADS[-1]:
            _commit(project)  # only now, since git slows down every task
        task = track.create_task(app, where, text, goal=text, agent_name=text, areas=["src/**"])
        call_tool(app, "log_milestone", task_id=task, message=text, progress=3)
        call_tool(
            app, "log_decision", task_id=task, category="other", question=text, chosen=text, reasoning=text,
            options_considered=[text, "b"], trade_offs=text,
        )  # fmt: skip
        track.create_blocker(app, task, text)
        if is_last:
            (project / "<img src=x onerror=hacked=1>.md").write_text("\n".join(PAYLOADS))
        outcome = {
            "summary": text, "achievements": [text], "limitations": [text], "next_steps": [text],
            "manual_review_needed": True, "manual_review_reason": text,
        }  # fmt: skip
        track.complete_task(
            app, task, outcome=outcome, metadata={"packages_added": [text], "commands_executed": [text]}
        )
    return id, task


def _commit(project: Path) -> None:
    """Make the project a repository."""
    (project / ".gitignore").write_text(".deepwork/\n")
    run_git(project, "init", "--quiet")
    run_git(project, "add", "--all")
    run_git(project, "commit", "--quiet", "--message", "first")


def _make_sessions(project: Path, clock: Clock) -> tuple[str, str]:
    """Make two job sessions with the payloads in every field: one failed its review, one was aborted."""
    joined = "\n\n".join(PAYLOADS)
    reviews = [jobs.make_review(**{text: text for text in PAYLOADS})]
    output = {"polish.md": {"type": "file", "description": joined, "required": True}}
    steps = [
        jobs.make_step("draft", reviews=reviews),
        jobs.make_step("polish", output, reviews, description=joined),
    ]
    jobs.write_job(project, "letter", steps)
    names = [f"{place} {text.replace('/', '')}.md" for place, text in enumerate(PAYLOADS[:2])]
    jobs.write_files(project, *names)
    verdict = {
        "passed": False, "feedback": joined,
        "criteria_results": [{"criterion": text, "passed": False, "feedback": text} for text in PAYLOADS],
    }  # fmt: skip
    with open_app_with_reviewer(project, clock, verdict) as app:
        given_up = begin_job(app, "letter", goal=joined)
        ask_job(app, "abort_workflow", session_id=given_up, explanation=joined)
        sent_back = begin_job(app, "letter", goal=joined)
        about = {"session_id": sent_back, "notes": joined}
        ask_job(
            app,
            "finished_step",
            outputs={"draft.md": names[0]},
            quality_review_override_reason=joined,
            **about,
        )
        answer = ask_job(app, "finished_step", outputs={"polish.md": names[1]}, **about)
        assert answer["status"] == "needs_work"
    return sent_back, given_up


def _make_plan(app: Application) -> tuple[str, str]:
    """Make a plan with a task, and an agent with a message, for each payload."""
    joined = "\n".join(PAYLOADS)
    id = call_tool(app, "workflow_create", name=PAYLOADS[1], source_type="prompt", source_content=joined)[
        "id"
    ]
    tasks = [{"name": text, "description": text, "sequence": 1} for text in PAYLOADS]
    call_tool(
        app, "workflow_set_plan", id=id,
        plan={"summary": joined, "approach": joined, "risks": list(PAYLOADS), "assumptions": list(PAYLOADS), "tasks": tasks},
    )  # fmt: skip
    _make_attempts(app, id)
    for text in PAYLOADS:
        agent: str = call_tool(app, "agent_register", name=text, runtime="codex", capabilities=[text])["id"]
    for text in PAYLOADS:
        call_tool(
            app, "message_send", sender_id=agent, recipient_id=agent, message_type="notification", subject=text,
            body=text,
        )  # fmt: skip
    return id, agent


def _make_attempts(app: Application, plan: str) -> None:
    """Let an agent work on each task, whose program writes the payload; one run ended with it as reason."""
    run = start_run(app, plan)
    tasks = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]
    for text, task in zip(PAYLOADS, tasks, strict=True):
        said = {"now_doing": text, "reason": text, "outcome": text, "profile": text, "host": text}
        add_attempt(app, run, task["id"], **said)
    over = start_run(app, None, job=PAYLOADS[2], goal=PAYLOADS[3])
    RunService(app.database).set_status(over.id, RunStatus.STOPPED, "\n".join(PAYLOADS))


def list_paths(hostile: Hostile) -> list[str]:
    crowd = f"/runs/{hostile.crowd}"
    return [
        "/", "/runs?limit=100", "/history?show=problems", "/history?show=approvals", "/history", "/history?show=decisions", "/live?show=agents", f"/live?show=agents&agent={hostile.agent}", "/runs?kind=plan", "/runs?kind=job",
        "/live", "/review", f"/review?item={hostile.task}",
        *(f"{crowd}?tab={tab}" for tab in ("timeline", "graph", "tasks", "files", "decisions", "issues", "log")),
        f"/runs/{hostile.job}", f"/tasks/{hostile.job}%2Fdraft", f"/tasks/{hostile.job}%2Fpolish", f"/runs/{hostile.aborted}",
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


@pytest.mark.thorough
def test_text_from_agents_is_shown_as_text_and_never_runs(
    browser: Browser, project: Path, hostile: Hostile
) -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 60
    suspects = []
    with Dashboard(project) as dashboard, Visitor(browser, dashboard) as visitor:
        for address in list_paths(hostile):
            visitor.open(address)
            suspects += visitor.page.evaluate(_SUSPECTS)
        for run in hostile.runs:
            visitor.page.evaluate(
                "to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')) }",
                f"/runs/{run}",
            )
            visitor.page.wait_for_selector(f"main .crumbs code:text-is('{run}')")
            suspects += visitor.page.evaluate(_SUSPECTS)

        # The text is shown exactly as written.
        visitor.open(f"/runs/{hostile.runs[0]}")
        assert visitor.page.locator("h1").inner_text() == PAYLOADS[0]
        visitor.open(f"/runs/{hostile.job}")
        assert visitor.page.locator(".criteria li", has_text=PAYLOADS[0]).count()
        visitor.open(f"/tasks/{hostile.task}")
        wait_until(
            lambda: visitor.page.locator(".diff .line-text", has_text=PAYLOADS[1]).count(),
            "no diff was shown",
        )

        assert suspects == []
        assert visitor.page.evaluate("window.hacked") is None
        # A blocked script would be logged here; 404 and 400 are expected.
        assert [said for said in visitor.troubles if "404" not in said and "400" not in said] == []
        assert visitor.foreign == []
