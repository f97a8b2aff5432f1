"""A person looks at what waits for approval and decides on the page: with a token, a passphrase and a passkey."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from application import call_tool
from approvals.person import PASSPHRASE, Person, enroll_passphrase
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import ask
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.guarded_changes import Difference, describe_changes
from deepwork.kernel.errors import GateClosed
from e2e.browser import AXE, Dashboard, Visitor
from e2e.make import open_app
from workspaces.make import create_plan, create_repository

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession

SHOWN = {
    "name": "Publish the report",
    "files": [{"path": "report.md", "text": "# Report\n\nAll is well.\u202e\n"}],
}
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class NamedDashboard(Dashboard):
    """A dashboard that is opened under a host name, because browsers offer passkeys to names only."""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"


@pytest.fixture
def dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dashboard]:
    """A dashboard whose user has settings of their own: what is enrolled must not reach other tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    project = tmp_path / "project"
    project.mkdir()
    with NamedDashboard(project) as running:
        yield running


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by an agent's server."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


@pytest.fixture
def visitor(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, dashboard) as visiting:
        yield visiting
        # A refused decision is an answer with the status 403, which browsers report.
        assert [each for each in visiting.troubles if "status of 403" not in each] == []
        assert visiting.foreign == []


def ask_for(app: Application, subject: str, shown: dict[str, Any]) -> str:
    plan = call_tool(app, "workflow_create", name="Report", source_type="prompt", source_content="Write it.")
    request = ApprovalRequest(ApprovalKind.STEP, subject, plan["id"], shown)
    return ask(app.database, request).id


def ask_about_guarded_files(app: Application) -> str:
    change = Difference("tests/test_tax.py", "100644 " + "a" * 40, "100644 " + "b" * 40)
    shown = describe_changes([], [change], {change.path: "@@ -1 +1 @@\n-assert tax == 7\n+assert tax"})
    return ask(app.database, ApprovalRequest(ApprovalKind.GUARDED, "tk_aaaaaaaaaaaa", None, shown)).id


def read_decision(app: Application, id: str) -> tuple[str, str | None, str | None]:
    with app.database.reading() as tx:
        found = ApprovalStore(tx).get(id)
    return found.status.value, found.decided_by, found.method


def connect_passkeys(visitor: Visitor) -> tuple[CDPSession, str]:
    """Plug an authenticator into the browser that unlocks by itself."""
    session = visitor.context.new_cdp_session(visitor.page)
    session.send("WebAuthn.enable")
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return session, added["authenticatorId"]


def add_passkey(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("/settings?show=credentials")
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_label("Name of the passkey").fill("laptop")
    page.get_by_label("Passphrase").fill(PASSPHRASE)
    page.get_by_role("button", name="Create the passkey").click()
    page.wait_for_selector("text=passkey: laptop")


def decide_with_token(visitor: Visitor, app: Application) -> None:
    """Approve with the token alone, after the page has said what that is worth."""
    page = visitor.page
    id = ask_for(app, "aaaaaaaa/draft", SHOWN)
    visitor.open("/approvals")
    page.wait_for_url("**/history?show=approvals")
    page.get_by_role("link", name="step: Publish the report").click()
    page.wait_for_selector("text=every program that runs as you can read it")
    page.wait_for_selector("pre:has-text('All is well.⟨U+202E⟩')")

    page.get_by_label("Comment").fill("Good.")
    page.get_by_role("button", name="Approve").click()

    page.wait_for_selector("text=human:owner with a token")
    assert read_decision(app, id) == ("given", "human:owner", "token")


def decide_with_passphrase(visitor: Visitor, app: Application) -> None:
    """Refuse what changed since it was approved; a wrong passphrase decides nothing."""
    page = visitor.page
    changed = {"path": "report.md", "text": "# Report\n\nNothing is well.\n"}
    id = ask_for(app, "aaaaaaaa/draft", {**SHOWN, "files": [changed]})
    visitor.open(f"/approvals/{id}")
    page.wait_for_selector("text=Changed since it was approved")
    page.wait_for_selector("pre:has-text('-All is well.')")
    page.get_by_role("link", name="Show all that is to be approved").click()
    page.wait_for_selector("pre:has-text('# Report')")

    page.get_by_label("Passphrase").fill("a wrong passphrase")
    page.get_by_role("button", name="Approve").click()
    page.wait_for_selector("text=That is not the passphrase")
    assert read_decision(app, id)[0] == "pending"

    page.get_by_label("Passphrase").fill(PASSPHRASE)
    page.get_by_role("button", name="Refuse").click()
    page.wait_for_selector("text=human:owner with a passphrase")
    assert read_decision(app, id) == ("refused", "human:owner", "passphrase")


def decide_with_passkey(visitor: Visitor, app: Application, session: CDPSession, authenticator: str) -> None:
    """Approve with a passkey, which must verify who uses it."""
    page = visitor.page
    id = ask_for(app, "aaaaaaaa/send", SHOWN)
    visitor.open(f"/approvals/{id}")
    page.wait_for_selector("text=Your passkey is asked for when you decide.")

    session.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    page.get_by_role("button", name="Approve").click()
    page.wait_for_selector("text=The passkey was not used")
    assert read_decision(app, id)[0] == "pending"

    session.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": True})
    page.get_by_role("button", name="Approve").click()
    page.wait_for_selector("text=human:owner with a passkey")
    assert read_decision(app, id) == ("given", "human:owner", "passkey")


def test_a_person_decides_with_each_kind_of_proof(visitor: Visitor, app: Application) -> None:
    decide_with_token(visitor, app)
    enroll_passphrase(app)
    decide_with_passphrase(visitor, app)
    session, authenticator = connect_passkeys(visitor)
    add_passkey(visitor)
    decide_with_passkey(visitor, app, session, authenticator)
    with pytest.raises(Exception, match="works in a browser only"):
        Person(app).check(PASSPHRASE)

    # Going back to the passphrase needs the passkey.
    visitor.open("/settings?show=credentials")
    visitor.page.get_by_role("button", name="Remove all passkeys").click()
    visitor.page.wait_for_selector("text=Decisions need a passphrase.")
    assert Person(app).check(PASSPHRASE).method == "passphrase"


def test_the_pages_are_accessible_and_say_where_passkeys_work(
    browser: Browser, visitor: Visitor, dashboard: Dashboard, app: Application
) -> None:
    id = ask_for(app, "aaaaaaaa/draft", SHOWN)
    guarded = ask_about_guarded_files(app)
    for address in (
        "/settings?show=credentials",
        "/history?show=approvals",
        f"/approvals/{guarded}",
        f"/approvals/{id}",
    ):
        visitor.open(address)
        if guarded in address:
            visitor.page.wait_for_selector(
                "h3:has-text('tests/test_tax.py') + pre:has-text('-assert tax == 7')"
            )
        visitor.page.evaluate(AXE.read_text())
        found = visitor.page.evaluate(
            "axe.run().then((result) => result.violations.map((each) => each.id + ': ' + each.nodes[0].html))"
        )
        assert found == [], address
        if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
            visitor.page.screenshot(
                path=f"{folder}/{address.replace('/', '_').replace('?', '_')}.png", full_page=True
            )

    visitor.page.goto(f"http://127.0.0.1:{dashboard.port}/?token={dashboard.token}")
    visitor.page.goto(f"http://127.0.0.1:{dashboard.port}/settings?show=credentials")
    visitor.page.wait_for_selector(f"text=http://localhost:{dashboard.port}")
    visitor.foreign.clear()


def test_the_work_on_a_task_is_shown_before_a_person_decides(
    visitor: Visitor, app: Application, dashboard: Dashboard
) -> None:
    create_repository(dashboard.project)
    plan, agent = create_plan(app)[0], call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
    tasks = [{"name": "Form", "approval": ["after"]}]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    [task] = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]
    call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)
    call_tool(app, "task_update_status", id=task["id"], status="in_progress", agent_id=agent)
    (dashboard.project / "form.html").write_text("<form></form>\n")
    done = {"id": task["id"], "status": "completed", "agent_id": agent, "outcome": "Wrote the form."}
    with pytest.raises(GateClosed):
        call_tool(app, "task_update_status", **done)
    [waiting] = read_pending(app)

    visitor.open(f"/approvals/{waiting}")

    page = visitor.page
    page.wait_for_selector("text=Wrote the form.")
    page.get_by_label("Changed files").get_by_text("form.html").wait_for()
    page.wait_for_selector("pre:has-text('+<form></form>')")
    page.wait_for_selector(f"code:has-text('deepwork approvals approve {waiting}')")
    assert not page.locator("dl.shown-fields").first.is_visible()
    page.get_by_text("Everything that the approval covers").click()
    page.locator("dl.shown-fields").first.wait_for()


def read_pending(app: Application) -> list[str]:
    with app.database.reading() as tx:
        return [row["id"] for row in tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending'")]
