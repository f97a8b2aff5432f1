"""Builders for the tests of landings: a real repository, plans whose tasks have branches, and checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from application import Clock, call_tool
from deepwork.delivery.landing.models import Landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.models import CHECKS_FILE
from deepwork.gates.checks.trusting import pin_checks
from deepwork.kernel.call import Call
from deepwork.work.plans.models import ApprovalTime, PlanRequirements, serialize_requirements
from workspaces.make import Plan, commit, run_git

PERSON = "human:ada"


class LandingProject:
    """A repository on the branch `desk`; plans start from `main`, which no tree has checked out."""

    def __init__(self, folder: Path, app: Application, clock: Clock | None = None) -> None:
        self.folder, self.app, self.clock = folder, app, clock

    def define_checks(self, text: str, *, trusted: bool = True) -> None:
        """Commit these checks on the current branch, and trust them."""
        self.write_checks(text, str(self.folder))
        run_git(self.folder, "add", "-f", CHECKS_FILE)
        run_git(self.folder, "commit", "-qm", "checks")
        if not trusted:
            return
        pin_checks(self.folder, parse_checks(text.encode()), proof="token", trusted_at="now")

    def write_checks(self, text: str, tree: str) -> None:
        self.write(tree, CHECKS_FILE, text)

    def write(self, tree: str, path: str, text: str) -> None:
        place = Path(tree) / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)

    def require_checks(self, plan_id: str, *names: str, approval: tuple[str, ...] = ()) -> None:
        """Let a plan require this from now on, without proofs of work that is done."""
        required = PlanRequirements(names, tuple(ApprovalTime(time) for time in approval))
        with self.app.database.transaction() as tx:
            tx.update("plans", plan_id, {"requirements": serialize_requirements(required)})

    def plan(self, tasks: Mapping[str, list[str] | None], **plan: Any) -> Plan:
        """Create a plan that starts from `main`; afterwards nobody has `main` checked out."""
        run_git(self.folder, "checkout", "-q", "main")
        made = Plan(self.app, tasks, **plan)
        run_git(self.folder, "checkout", "-q", "-B", "desk")
        return made

    def plan_done(self, files: Mapping[str, Mapping[str, str]], **plan: Any) -> Plan:
        """Create a plan and do all its tasks, which write these files; the first is done first."""
        made = self.plan(dict.fromkeys(files, None), **plan)
        for name, written in files.items():
            self.do(made, name, **written)
        return made

    def do(self, plan: Plan, name: str, **files: str) -> None:
        plan.do(name, **files)
        if self.clock:
            self.clock.advance(seconds=0.001)  # the order in which tasks are done is the order of landing

    def land(self, **arguments: Any) -> dict[str, Any]:
        """Land as a person does with `deepwork land`."""
        call = Call(PERSON, "land_work", patience=None)
        answer: dict[str, Any] = invoke(self.app.database, self.app.operations["land_work"], arguments, call)
        return answer

    def act(self, action: str, **arguments: Any) -> Any:
        return invoke(self.app.database, self.app.operations[action], arguments, Call(PERSON, action))

    def call(self, tool: str, **arguments: Any) -> Any:
        return call_tool(self.app, tool, **arguments)

    def git(self, *words: str) -> str:
        return run_git(self.folder, *words)

    def commit_on(self, branch: str, **files: str) -> str:
        """Commit files on a branch that is not checked out, as a person who pushes does."""
        before = self.git("rev-parse", "--abbrev-ref", "HEAD")
        self.git("checkout", "-q", branch)
        made = commit(self.folder, "by a person", **files)
        self.git("checkout", "-q", before)
        return made

    def list_landed(self, branch: str = "main") -> list[str]:
        """List the subjects of the first-parent history since the plan began, the oldest first."""
        listed = self.git("log", "--first-parent", "--reverse", "--format=%s", branch).splitlines()
        return [line.removeprefix("Land ") for line in listed if line.startswith("Land ")]

    def read(self, path: str, branch: str = "main") -> str:
        return self.git("show", f"{branch}:{path}")

    def get_landing(self, id: str) -> Landing:
        with self.app.database.reading() as tx:
            return LandingStore(tx).get(id)


def get_statuses(answer: Mapping[str, Any]) -> dict[str, str]:
    """Map the titles of landings to their statuses."""
    return {each["title"]: each["status"] for each in answer["landings"]}
