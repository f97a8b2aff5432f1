"""Renders the state of a run for a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from deepwork.delivery.runner.models import TIME_IS_OVER, AttemptStage, ParkedFor, RunStatus
from deepwork.edge.cli.framework.applications import call_operation, name_person
from deepwork.edge.cli.framework.output import render_lines, to_printable
from deepwork.edge.cli.framework.tables import measure_width, shorten
from deepwork.edge.cli.states import name_state
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.call import Call
from deepwork.kernel.states import State

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

Row = dict[str, Any]
"""A run or an attempt, as operations answer it."""
_MAX_PAGE = 500
_NO_NEXT = {"because": None, "next": None}
"""What a run has if there is nothing to say: programs find the keys in every run."""


def load_runs(app: Application, limit: int, *, is_open: bool) -> list[Row]:
    """Load runs as programs see them, the newest first."""
    found: list[Row] = []
    cursor: str | None = None
    while len(found) < limit:
        given = {"open": is_open, "limit": min(_MAX_PAGE, limit - len(found)), "cursor": cursor}
        answer = call_operation(app, "list_runs", given)
        found += [_NO_NEXT | run for run in answer["runs"]]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found


def load_run(app: Application, id: str, *, is_whole: bool = False) -> Row:
    """Load a run with its attempts that have not ended; `is_whole`: with all of them."""
    answer: Row = call_operation(app, "get_run_progress", {"id": id, "whole": is_whole})
    return _NO_NEXT | answer | {"attempts": [_NO_NEXT | attempt for attempt in answer["attempts"]]}


def decide(app: Application, operation: str, run_id: str, **arguments: Any) -> dict[str, Any]:
    """Pause, resume or stop a run in the name of the person at this shell; its driver carries that out."""
    call = Call(name_person(), operation, carries_notices=False)
    answer: dict[str, Any] = call_operation(app, operation, {"run_id": run_id, **arguments}, call)
    return answer


def decide_attempt(app: Application, operation: str, attempt_id: str) -> None:
    """Pause, take, continue or stop an attempt in the name of the person at this shell."""
    call = Call(name_person(), operation, carries_notices=False)
    call_operation(app, operation, {"attempt_id": attempt_id}, call)


_STYLES: Mapping[str, str] = {
    AttemptStage.RUNNING: "cyan",
    AttemptStage.PARKED: "yellow",
    AttemptStage.CHECKING: "cyan",
    AttemptStage.REVIEWING: "cyan",
    AttemptStage.LANDING: "cyan",
}
_RUN_NOTES: Mapping[str, str] = {
    RunStatus.PAUSED: "paused: nothing new starts",
    RunStatus.STOPPING: "stopping: it ends when its agents have ended",
    RunStatus.ENDING: "ending its agents",
}
_PARKED_WORDS: Mapping[str, str] = {
    ParkedFor.LIMIT: "limit",
    ParkedFor.PERSON: "waits for you",
    ParkedFor.TRUST: "waits for you",
    ParkedFor.BUDGET: "budget",
    ParkedFor.PAUSED: "paused",
    ParkedFor.TAKEN: "taken over",
}
_HINT = "Ctrl-C leaves the agents running; twice stops them."
_MIN_WIDTH, _MIN_NAME = 20, 12
_MAX_NAMED = 3
_MIN_HEIGHT = 5
"""Of the heading, an agent, the bar, and the hint, with one line to spare."""
_MAX_BAR = 30
_MAX_PROFILE = 14
_AMOUNT_WIDTHS = (10, 6, 7)
DONE, FAILED, NEEDS_PERSON = 0, 1, 3
"""Exit codes of a run that has ended; docs/command-line.md documents them."""
_EXIT_CODES: Mapping[str, int] = {RunStatus.DONE: DONE, RunStatus.NEEDS_PERSON: NEEDS_PERSON}
_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_THOUSAND, _MILLION = 1000, 1_000_000
_MIN_COMMAND_WORDS = 2
_INTERPRETERS = frozenset({"bash", "env", "node", "python", "python3", "sh", "zsh"})


class ScreenLine(NamedTuple):
    """A line of the screen, and its style."""

    text: str
    style: str = ""


def render_screen(run: Row, width: int, height: int, *, hint: str = "") -> list[ScreenLine]:
    """Render the run on at most this many columns and lines; the last one is the hint."""
    width, height = max(width, _MIN_WIDTH) - 1, max(height, _MIN_HEIGHT)
    lines = [
        _render_heading(run),
        *_render_agents(run, width, height - _MIN_HEIGHT + 1),
        ScreenLine(_render_bar(run, width)),
        ScreenLine(hint or _HINT, "yellow" if hint else "dim"),
    ]
    return [ScreenLine(shorten(line.text, width), line.style) for line in lines]


def _render_heading(run: Row) -> ScreenLine:
    parts = [to_printable(name_work_of(run)), run["id"], _RUN_NOTES.get(run["status"], "")]
    return ScreenLine("  ".join(filter(None, parts)), "bold")


def _render_agents(run: Row, width: int, room: int) -> Iterator[ScreenLine]:
    attempts = run["attempts"]
    if not attempts:
        yield ScreenLine("  No agent is at work.", "dim")
        return
    is_cut = len(attempts) > room
    shown = attempts[: room - 1] if is_cut else attempts
    columns = (
        _align([attempt["task_name"] for attempt in shown], max(_MIN_NAME, width // 3)),
        _align([name_agent(attempt["profile"]) for attempt in shown], _MAX_PROFILE),
    )
    now = parse_time(run["now"])
    for attempt, name, profile in zip(shown, *columns, strict=True):
        amounts = _render_amounts(attempt, now)
        cells = [name, profile, f"{attempt['stage']:<9}", *amounts, _render_doing(attempt, now)]
        yield ScreenLine(f"  {'  '.join(cells)}".rstrip(), _STYLES.get(attempt["stage"], ""))
    if is_cut:
        yield ScreenLine(f"  and {len(attempts) - len(shown)} more agents", "dim")


def _align(texts: Sequence[str], most: int) -> list[str]:
    """Give the texts of a column the same width."""
    cut = [shorten(to_printable(text), most) for text in texts]
    widest = max(map(measure_width, cut), default=0)
    return [text + " " * (widest - measure_width(text)) for text in cut]


def _render_amounts(attempt: Row, now: int) -> list[str]:
    amounts = (
        format_duration(measure_attempt(attempt, now)),
        format_tokens(attempt["tokens"]),
        format_cost(attempt),
    )
    return [f"{amount:>{wide}}" for amount, wide in zip(amounts, _AMOUNT_WIDTHS, strict=True)]


def _render_doing(attempt: Row, now: int) -> str:
    """Say which tool the agent is in, or what a parked one waits for."""
    if attempt["stage"] != AttemptStage.PARKED:
        return to_printable(attempt.get("now_doing") or "")
    text = _PARKED_WORDS.get(attempt.get("parked_for", ""), "waits")
    if "not_before" in attempt:
        moment = parse_time(attempt["not_before"])
        text += f", goes on in {format_countdown(moment - now)} (at {format_local_time(moment, now)})"
    return f"{text}: {to_printable(attempt['reason'])}" if attempt.get("reason") else text


def _render_bar(run: Row, width: int) -> str:
    facts = list(_list_facts(run))
    total = sum(run["progress"].values())
    if not total:
        return "  ".join(facts)
    done = _count_done(run)
    size = min(_MAX_BAR, max(5, width // 3))
    filled = size * done // total
    return "  ".join(
        [f"{'█' * filled}{'░' * (size - filled)}", f"{done} of {total} {_name_unit(run)}", *facts]
    )


def _count_done(run: Row) -> int:
    """Return how many tasks of the plan are finished."""
    done: int = run["progress"].get("completed", 0) + run["progress"].get("skipped", 0)
    return done


def _name_unit(run: Row) -> str:
    """Return the word for what the work consists of."""
    return "tasks" if "workflow_id" in run else "steps"


def _list_facts(run: Row) -> Iterator[str]:
    if failed := run["progress"].get("failed"):
        yield f"{failed} failed"
    spent = format_dollars(run["usd"])
    yield f"{spent} of {format_dollars(run['max_usd'])}" if "max_usd" in run else spent
    if "until" in run:
        yield f"until {format_local_time(parse_time(run['until']), parse_time(run['now']))}"


def choose_exit_code(run: Row) -> int:
    """Return the exit code for a run that ended in this way; one whose time is over can be run again."""
    if run["status"] == RunStatus.STOPPED and run.get("reason") == TIME_IS_OVER:
        return NEEDS_PERSON
    return _EXIT_CODES.get(run["status"], FAILED)


def render_summary(run: Row) -> Iterator[str]:
    """Render how a run ended."""
    progress, total = run["progress"], sum(run["progress"].values())
    facts = [f"{_count_done(run)} of {total} {_name_unit(run)} done"] if total else []
    if failed := progress.get("failed"):
        facts.append(f"{failed} failed")
    if "landed" in run:
        facts.append(f"{run['landed']} landed")
    took = format_duration(parse_time(run.get("ended_at") or run["now"]) - parse_time(run["created_at"]))
    amounts = ", ".join([*facts, took, format_dollars(run["usd"])])
    yield f"{to_printable(name_work_of(run))}: {name_state(run['state'])}, {amounts}"
    if run.get("reason"):
        yield to_printable(run["reason"])
    yield from _list_next_commands(run)


def _list_next_commands(run: Row) -> Iterator[str]:
    if run["status"] == RunStatus.NEEDS_PERSON:
        yield "deepwork status  # what waits for you, and the command that answers it"
    if run["state"] == State.UNATTENDED:
        yield from _describe_absence(run)
        yield f"{run['next']}  # continues"
    elif run["next"]:
        meaning = "brings its work into your branch" if run["state"] == State.DONE else "continues"
        yield f"{run['next']}  # {meaning}"
    yield f"deepwork runs show {run['id']}  # its attempts"


def _describe_absence(run: Row) -> Iterator[str]:
    """Say what still runs without a driver, and what does not happen."""
    yield to_printable(f"Nobody drives it; {name_working(run)}.")
    left, unit = run["progress"].get("pending", 0), _name_unit(run)
    starts = f"{left} open {unit} do not start" if left else "nothing starts"
    if left == 1:
        starts = f"1 open {unit[:-1]} does not start"
    lost = ["no work is checked" + (" or landed" if "landed" in run else "")]
    lost += ["no budget is kept"] if "max_usd" in run else []
    lost += ["the time of --until ends nothing"] if "until" in run else []
    yield f"Until then {', '.join([starts, *lost])}."


def name_working(run: Row) -> str:
    """Say which agents work whether or not somebody drives the run."""
    working = [each for each in run["attempts"] if each["stage"] == AttemptStage.RUNNING]
    if not working:
        return "no agent works"
    names = [f"{name_agent(each['profile'])} · {each['task_name']}" for each in working]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more} still {'works' if len(names) == 1 else 'work'}"


def list_unattended(app: Application, but: str) -> list[str]:
    """Say which other runs nobody drives, each with the command that continues it."""
    return [
        f"Nobody drives run {each['id']} ({name_work_of(each)}): {each['next']}"
        for each in load_runs(app, _MAX_PAGE, is_open=True)
        if each["state"] == State.UNATTENDED and each["id"] != but
    ]


def build_run_rows(runs: Sequence[Row]) -> list[Row]:
    """Build what a person sees of runs; models only if one is known."""
    has_models = any(run["models"] for run in runs)
    return [_build_run_row(run, has_models=has_models) for run in runs]


def _build_run_row(run: Row, *, has_models: bool) -> Row:
    models = {"models": ", ".join(run["models"])} if has_models else {}
    return {
        "name": name_work_of(run),
        "id": run["id"],
        "state": name_state(run["state"]),
        "because": (run.get("because") or "").partition(":")[0].replace("_", " "),
        "agents": len(run["attempts"]),
        **models,
        "cost": format_dollars(run["usd"]),
        "started": run["created_at"],
    }


def name_work_of(run: Row) -> str:
    """Return the name of the plan or of the job that a run works on."""
    name: str = run.get("job") or run["workflow"]["name"]
    return name


def render_run(run: Row) -> Iterator[str]:
    """Render a run and its attempts."""
    yield from render_summary(run)
    if attempts := run["attempts"]:
        yield ""
        has_models = any(attempt.get("model") for attempt in attempts)
        now = parse_time(run["now"])
        rows = [_build_attempt_row(attempt, now, has_models=has_models) for attempt in attempts]
        yield from render_lines({"attempts": rows})
        yield f"deepwork runs logs {attempts[-1]['id']}  # what its agent did and said"


def _build_attempt_row(attempt: Row, now: int, *, has_models: bool) -> Row:
    return {
        "id": attempt["id"],
        "task": attempt["task_name"],
        "state": name_state(attempt["state"]),
        "stage": attempt["stage"],
        "number": attempt["number"],
        "agent": name_agent(attempt["profile"]),
        **({"model": attempt.get("model", "")} if has_models else {}),
        "time": format_duration(measure_attempt(attempt, now)),
        "tokens": format_tokens(attempt["tokens"]),
        "cost": format_cost(attempt),
        "reason": attempt.get("reason", ""),
    }


def build_lane_rows(lanes: Sequence[Row]) -> list[Row]:
    """Build what a person sees of the agents at work; what a vendor does not say is a question mark."""
    now = round(time.time() * 1000)
    return [
        {
            "task": lane["task_name"],
            "agent": name_agent(lane["profile"]),
            "state": name_state(lane["state"]),
            "doing": lane.get("tool") or lane.get("now_doing") or lane.get("reason", ""),
            "time": format_duration(measure_attempt(lane, now)),
            "tokens": format_tokens(lane["tokens"]) if "tokens" in lane else "?",
            "cost": format_dollars(lane["usd"]) if "usd" in lane else "$?",
            "id": lane["id"],
        }
        for lane in lanes
    ]


def render_held(lane: Row, takeover: Row) -> Iterator[str]:
    """Render an attempt that was paused, taken over or stopped, and how it continues."""
    said = lane.get("reason") or name_state(lane["state"])
    yield f"{lane['id']} ({to_printable(lane['task_name'])}): {to_printable(said)}"
    if lane.get("parked_for") == ParkedFor.TAKEN and takeover.get("command"):
        where = "" if takeover["host"] == "local" else f", on {takeover['host']}"
        what = "continues its session here" if takeover["has_session"] else "goes to its files"
        yield f"{to_printable(takeover['command'])}  # {what}{where}"
    if lane.get("next"):
        yield f"{lane['next']}  # continues"
    elif lane["stage"] == AttemptStage.STOPPED:
        yield f"deepwork tasks retry {lane['task_id']}  # lets an agent try again"


def render_given_back(lane: Row) -> str:
    """Say when an attempt continues that was given back."""
    if lane["state"] == State.UNATTENDED:
        return f"{lane['id']}: nobody drives its run; {lane['next']}  # continues"
    return f"{lane['id']}: its runner continues the session."


def format_duration(milliseconds: int) -> str:
    """Write how long something takes: `35 s`, `12 min`, `3 h 05 min`."""
    if milliseconds < _MINUTE:
        return f"{max(0, milliseconds) // _SECOND} s"
    if milliseconds < _HOUR:
        return f"{milliseconds // _MINUTE} min"
    return f"{milliseconds // _HOUR} h {milliseconds % _HOUR // _MINUTE:02d} min"


def format_countdown(milliseconds: int) -> str:
    """Write how long is left, to the second: `4:59`, `1:04:59`."""
    seconds = -(-max(0, milliseconds) // _SECOND)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def format_tokens(tokens: int) -> str:
    """Write a number of tokens: `840`, `84k`, `1.2M`."""
    if tokens < _THOUSAND:
        return str(tokens)
    if tokens < _MILLION:
        return f"{tokens // _THOUSAND}k"
    return f"{tokens / _MILLION:.1f}M"


def format_cost(attempt: Row) -> str:
    """Write what an attempt cost; `$?` if it used tokens whose price is not known."""
    if attempt["tokens"] and not attempt["usd"] and "usd_source" not in attempt:
        return "$?"
    return format_dollars(attempt["usd"])


def name_agent(profile: str) -> str:
    """Return the name of a profile; of a command line, the name of its program or script."""
    words = profile.split()
    if len(words) < _MIN_COMMAND_WORDS:
        return profile
    names = [PurePath(word).name for word in words if not word.startswith("-")]
    return next((name for name in names if name not in _INTERPRETERS), names[0] if names else profile)


def format_local_time(milliseconds: int, now: int) -> str:
    """Write a time of the next day or so as this machine's clock shows it; a later one with its date."""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return f"{moment:%H:%M}" if abs(milliseconds - now) < 20 * _HOUR else f"{moment:%Y-%m-%d %H:%M}"


def parse_time(text: str) -> int:
    """Return a time of an answer or an event in Unix milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def measure_attempt(attempt: Row, now: int) -> int:
    """Return how long an attempt has been going on, or took, in milliseconds; waiting counts."""
    ended = parse_time(attempt["ended_at"]) if "ended_at" in attempt else now
    return max(0, ended - parse_time(attempt["created_at"]))
