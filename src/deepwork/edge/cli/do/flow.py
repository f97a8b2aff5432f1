"""The path of a wish: planned, shown, started, followed, told; each step looks at what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.models import RunRequest
from deepwork.edge.cli.do.editing import edit_plan
from deepwork.edge.cli.do.questions import Person
from deepwork.edge.cli.do.showing import PlanningOutput, render_plan
from deepwork.edge.cli.framework.applications import call_operation, name_person
from deepwork.edge.cli.report import print_report
from deepwork.edge.cli.run.command import is_plan_done
from deepwork.edge.cli.run.following import continue_run, follow_run, has_ended
from deepwork.edge.cli.run.outputs import choose_output
from deepwork.edge.cli.run.rendering import DONE, NEEDS_PERSON
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.foreign_text import dump_json
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Command

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import Run
    from deepwork.edge.server.application import Application

Row = dict[str, Any]
_LAND = Command.LAND.about("")
_MAX_COMPLAINTS, _MAX_COMPLAINT_BYTES = 10, 2_000


@dataclass(frozen=True)
class Flow:
    """Takes a wish from where it is to where a person is needed, or to its end."""

    app: Application
    place: Mapping[str, Any]
    person: Person
    detach: bool = False

    def go(self, wish: Row) -> int:
        """Do what is left; return the exit code."""
        plan = self._load_plan(wish)
        if plan["status"] == "planning":
            if code := self._plan(wish):
                return code
            plan = self._load_plan(wish)
        if "started_at" not in wish:
            if not self._start(wish, plan):
                return NEEDS_PERSON
            wish = self._load(wish["id"])
        return self._run(wish)

    # Planning

    def _plan(self, wish: Row) -> int:
        """Let the planner work; return why it is over, 0 if there is a plan."""
        chosen, settings = wish["options"], self.app.settings
        planner = chosen.get("planner") or settings.do_planner
        agents = (planner,) if planner else tuple(chosen.get("agents") or ())[:1]
        request = _build_request(agents, None if agents else chosen.get("chain"), chosen)
        self._retry_planning(wish)
        try:
            run = self._start_plan(wish["planning_id"], request)
        except NotAllowed as refused:
            if is_plan_done(refused):
                return DONE
            raise
        code = follow_run(self.app, run.id, PlanningOutput(as_json=self.person.as_json))
        if code and self._load_plan(wish)["status"] == "planning":
            found = self._load(wish["id"])
            said = (
                [f"There is no plan yet: {run_reason}"]
                if (run_reason := _find_reason(self.app, run.id))
                else []
            )
            if found.get("returned_plan"):
                said += ["What was wrong with the one that went back:", found["returned_plan"]]
            said += _read_complaints(self.app, run.id)
            next = [found["next"]] if found.get("next") else []
            self.person.say(*said, *next, f"deepwork do {wish['id']}  # continues")
            return code
        return DONE

    def _retry_planning(self, wish: Row) -> None:
        """Let planning that failed for good be tried again: a person asks for it."""
        given = {"id": wish["planning_id"], "include_tasks": True}
        for task in call_operation(self.app, "workflow_get", given)["tasks"]:
            if task["status"] == "failed":
                self._call("task_update_status", id=task["id"], status="pending")

    # Starting

    def _start(self, wish: Row, plan: Row) -> bool:
        """Show the plan, and let a person decide; False if it was not started."""
        while True:
            self._show(wish, plan)
            if self.person.yes:
                break
            if not self.person.can_answer:
                raise NotAllowed(
                    "The plan is ready, and nobody can be asked whether it may start: this is no terminal.",
                    suggestion=f"Start it with `deepwork do {wish['id']} --yes`, or run that in a terminal.",
                )
            answer = self.person.choose("Start? [Y/n/e]dit", "yne")
            if answer == "y":
                break
            if answer == "n":
                self.person.say(
                    "Nothing was started; the plan is kept.",
                    f"deepwork do {wish['id']}  # asks again",
                    f"deepwork plans update-status {wish['plan_id']} abandoned  # forgets it",
                )
                return False
            edit_plan(self.app, wish, plan, self.person)
            plan = self._load_plan(wish)
        self._call("start_wish", id=wish["id"])
        return True

    def _show(self, wish: Row, plan: Row) -> None:
        options = wish["options"]
        checks = options.get("checks") or []
        if self.person.as_json:
            print(dump_json({"type": "wish", **wish, "plan": plan}), flush=True)
            return
        print("\n".join(render_plan(plan, checks)))
        for note in plan.get("assumptions") or ():
            self.person.say(f"  assumes: {' '.join(str(note).split())}")
        for note in plan.get("risks") or ():
            self.person.say(f"  risk: {' '.join(str(note).split())}")
        named = f"Checks: {', '.join(checks)} (trusted)." if checks else "Checks: none."
        budget = f"Budget {format_dollars(options['max_usd'])}." if "max_usd" in options else "No budget."
        self.person.say(f"{named} {budget} Land on {wish['branch']}.")

    # Working

    def _run(self, wish: Row) -> int:
        chosen = wish["options"]
        request = _build_request(
            tuple(chosen.get("agents") or ()),
            chosen.get("chain"),
            chosen,
            parallel=chosen["parallel"],
            land=True,
        )
        self._land_left(wish)
        try:
            run = self._start_plan(wish["plan_id"], request)
        except NotAllowed as refused:
            if not is_plan_done(refused):
                raise
        else:
            code = self._follow(run, wish["id"])
            if code not in (DONE, NEEDS_PERSON) or self.detach:
                return code
        report = call_operation(self.app, "report_run", {"id": wish["id"]})
        print_report(report, as_json=self.person.as_json)
        if report["state"] in ("done", "landed"):
            return DONE
        if report["not_done"]:
            self.person.say(f"deepwork do {wish['id']}  # goes on after that")
        return NEEDS_PERSON

    def _land_left(self, wish: Row) -> None:
        """Land what is done and has not landed, such as after a repair: the review waits for it."""
        report = call_operation(self.app, "report_run", {"id": wish["id"]})
        if not any((task.get("next") or "").startswith(_LAND) for task in report["tasks"]):
            return
        call = Call(name_person(), "land_work", patience=None, carries_notices=False)
        try:
            call_operation(self.app, "land_work", {"workflow_id": wish["plan_id"]}, call)
        except DeepworkError as error:  # the report says what has not landed
            self.person.say(error.message)

    def _follow(self, run: Run, wish_id: str) -> int:
        """Show the work until it has ended, or was left; the report says what it came to."""
        as_json = self.person.as_json
        if self.detach:
            return continue_run(self.app, run.id, self.place, detach=True, as_json=as_json)

        def summarize(shown: Row) -> Iterator[str]:
            if not has_ended(shown):
                yield f"deepwork do {wish_id}  # comes back to it"

        return follow_run(self.app, run.id, choose_output(as_json=as_json, summarize=summarize))

    def _start_plan(self, plan_id: str, request: RunRequest) -> Run:
        with use_call(Call(name_person(), "run")):
            return self.app.runner.start_plan(plan_id, request)

    # Reading

    def _load(self, id: str) -> Row:
        found: Row = call_operation(self.app, "get_wish", {"id": id})
        return found

    def _load_plan(self, wish: Row) -> Row:
        found: Row = call_operation(self.app, "get_wish_plan", {"id": wish["id"]})
        return found

    def _call(self, operation: str, **given: Any) -> Row:
        call = Call(name_person(), operation, carries_notices=False)
        answer: Row = call_operation(self.app, operation, given, call)
        return answer


def _build_request(
    agents: tuple[str, ...],
    chain: str | None,
    chosen: Mapping[str, Any],
    *,
    parallel: int = 1,
    land: bool = False,
) -> RunRequest:
    options: dict[str, Any] = {"land": land}
    if "max_usd" in chosen:
        options["max_usd"] = chosen["max_usd"]
    return RunRequest(agents=agents, chain=chain, parallel=parallel, options=options)


def _find_last_attempt(app: Application, run_id: str) -> Row:
    found = call_operation(app, "list_attempts", {"run_id": run_id, "limit": 1})["attempts"]
    last: Row = found[0] if found else {}
    return last


def _find_reason(app: Application, run_id: str) -> str | None:
    """Return why the planner's last attempt failed."""
    reason: str | None = _find_last_attempt(app, run_id).get("reason")
    return reason


def _read_complaints(app: Application, run_id: str) -> list[str]:
    """Return the end of what the planner wrote to its standard error."""
    attempt = _find_last_attempt(app, run_id)
    if not attempt:
        return []
    given = {"id": attempt["id"], "stream": "stderr", "max_bytes": _MAX_COMPLAINT_BYTES}
    lines = call_operation(app, "get_attempt_output", given)["text"].strip().splitlines()
    return ["The end of its standard error:", *lines[-_MAX_COMPLAINTS:]] if lines else []
