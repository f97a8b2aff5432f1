"""`deepwork track` and `deepwork diff`: recorded work, its decisions and its changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_arguments
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, render_lines, to_printable
from deepwork.edge.cli.framework.patches import page_lines, render_patch, render_stat
from deepwork.edge.cli.framework.tool_commands import CommandOverrides, JsonParam, ToolGroup, WordChoice
from deepwork.edge.cli.states import add_context_states, add_list_states, name_state, show_listed
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.foreign_text import split_lines

_ALL_SECTIONS = ("phase_summary", "tasks", "decisions", "milestones", "blockers")
_SECTION_TABLES = {
    "phase_summary": ("PHASES", ("phase_number", "phase_name", "status", "tasks", "duration_seconds")),
    "tasks": ("TASKS", ("id", "name", "state", "agent_name", "files_changed", "summary")),
    "decisions": ("DECISIONS", ("category", "question", "chosen", "reasoning", "agent_name")),
    "milestones": ("MILESTONES", ("created_at", "progress", "message", "agent_name")),
    "blockers": ("BLOCKERS", ("id", "type", "description", "resolution", "task_name")),
    "answers": ("ANSWERS", ("issue_id", "question", "answer", "by", "at")),
}


def render_context(answer: dict[str, Any]) -> list[str]:
    """Render the sections of a tracked workflow for people."""
    return list(_render_sections(answer))


def _render_sections(answer: dict[str, Any]) -> Iterator[str]:
    phase = f"phase {answer['current_phase']} of {answer['total_phases']}"
    yield to_printable(f"{answer['workflow_name']}: {name_state(answer['state'])}, {phase}")
    for key in ("objective", "warning"):
        if answer.get(key):
            yield to_printable(answer[key])
    for section, (title, columns) in _SECTION_TABLES.items():
        if not answer.get(section):
            continue
        rows = [{name: _format_counts(row.get(name)) for name in columns} for row in answer[section]]
        yield ""
        yield from render_lines({title.lower(): rows})
        total = answer.get(f"{section}_count", len(rows))
        if total > len(rows):
            yield f"… {len(rows)} of {total}; --limit shows more"


def _format_counts(value: Any) -> Any:
    """Format counts by name as `3 done, 1 failed`; other values stay."""
    if isinstance(value, dict):
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in value.items() if count)
    return value


def _render_diff(answer: dict[str, Any]) -> list[str]:
    return list(map(to_printable, _render_changes(answer)))


def _render_changes(answer: dict[str, Any]) -> Iterator[str]:
    if answer.get("warning"):
        yield answer["warning"]
    for file in answer["files"]:
        counted = (
            "binary" if file.get("is_binary") else f"+{file.get('added', '?')} -{file.get('removed', '?')}"
        )
        shared = f", shared with {', '.join(file['shared_with'])}" if file.get("shared_with") else ""
        yield f"{file['status']:9} {counted:>10}  {file['path']}  ({file['attribution']}{shared})"
        if file.get("diff"):
            yield from split_lines(file["diff"])
        if file.get("truncated"):
            yield "… truncated; --max-bytes shows more"
    if answer["files_count"] > len(answer["files"]):
        yield f"… {len(answer['files'])} of {answer['files_count']} files"
    if not answer["files"] and not answer.get("warning"):
        yield "No files changed."


def _include_all(arguments: dict[str, Any], _: bool) -> dict[str, Any]:
    return {"include": list(_ALL_SECTIONS), **arguments}


def _build_outcome(arguments: dict[str, Any], _: bool) -> dict[str, Any]:
    """Build the outcome from --summary, or from JSON, or from both."""
    built = dict(arguments)
    summary = built.pop("summary", None)
    if summary is None and "outcome" not in built:
        raise click.UsageError("Missing option '--summary', or an outcome as JSON.")
    if summary is not None:
        built["outcome"] = {**built.get("outcome", {}), "summary": summary}
    return built


_DONE_OVERRIDES = CommandOverrides(
    {
        "status": click.Argument(
            ["status"],
            required=False,
            default="success",
            type=WordChoice(("success", "partial_success", "failed"), case_sensitive=False),
            metavar="[STATUS]",
        ),
        "outcome": click.Argument(["outcome"], required=False, type=JsonParam(), metavar="[OUTCOME]"),
    },
    "STATUS: success (default), partial_success or failed. OUTCOME: a JSON object with more than a summary.",
    prepare=_build_outcome,
    added=[click.Option(["--summary"], metavar="TEXT", help="What was done.")],
)

_INCLUDE_OPTION = {
    "include": click.Option(
        ["--include"], multiple=True, type=click.Choice(_ALL_SECTIONS), help="Default: all."
    )
}

track = ToolGroup(
    "track",
    [
        "deepwork.work.tracking.tools:TrackTools",
        "deepwork.work.tracking.log_tools:LogTools",
        "deepwork.work.tracking.context_tools:ContextTools",
    ],
    "",
    "Record work as it happens: workflows, phases, tasks and decisions.",
    {
        "context": CommandOverrides(
            _INCLUDE_OPTION, prepare=_include_all, render=render_context, complete=add_context_states
        ),
        "get-context": CommandOverrides(_INCLUDE_OPTION, prepare=_include_all),
        "list": CommandOverrides(
            complete=add_list_states("record", "workflows"), reword=show_listed("workflows")
        ),
        "diff": CommandOverrides(render=_render_diff),
        "resolve": CommandOverrides(is_by_person=True),
        "done": _DONE_OVERRIDES,
    },
)


def _add_section_command(name: str, include: tuple[str, ...], help: str) -> None:
    """Add a command to `track` that shows some sections of a workflow's context."""

    @track.command(name, help=help)
    @click.argument("workflow_id")
    @click.option(
        "--limit",
        type=click.IntRange(1, 500),
        default=50,
        metavar="N",
        help="Maximum length of each list. Default: 50.",
    )
    @json_option
    @place_options
    def command(workflow_id: str, limit: int, as_json: bool, path: str, **place: Any) -> None:
        arguments = {"workflow_id": workflow_id, "include": list(include), "limit": limit}
        _print_tool_answer("get_context", arguments, render_context, "track", path, place, as_json=as_json)


_add_section_command(
    "show", ("phase_summary", "tasks", "blockers"), "Show a workflow: its phases, tasks and blockers."
)
_add_section_command("blockers", ("blockers",), "Show blockers: issues that wait for a person.")
_add_section_command("decisions", ("decisions",), "Show decisions and their reasons.")


@click.command("diff")
@click.argument("task_id")
@click.argument("file", required=False)
@click.option("--stat", is_flag=True, help="Only how many lines of each file changed.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1, 1_000_000),
    default=1_000_000,
    metavar="N",
    help="Maximum size of what is shown. Default: 1000000.",
)
@json_option
@place_options
def diff(
    task_id: str, file: str | None, stat: bool, max_bytes: int, as_json: bool, path: str, **place: Any
) -> None:
    """Show what a task changed, tracked or planned, also while it runs; with FILE, only that file.

    Compared with what the task began with: what its earlier attempts did is part of it.
    """
    arguments = {"task_id": task_id, "max_bytes": max_bytes} | ({"path": file} if file else {})
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_arguments(app.database, "diff", arguments)
        call = Call(tool="get_task_patch", carries_notices=False)
        found = call_operation(app, "get_task_patch", known, call)
        of_attempt = invoke(app.database, app.build_toolset("tracking")["get_task_diff"], known, call)
    if as_json:
        more = {key: value for key, value in found.items() if key not in ("files", "files_count")}
        print_answer(of_attempt | more, as_json=True)
    elif stat or not found["patch"]:
        print("\n".join([*render_stat(found), *_render_sharing(of_attempt)]))
    else:
        page_lines(render_patch(found, "--max-bytes shows more"))


def _render_sharing(answer: dict[str, Any]) -> Iterator[str]:
    for file in answer["files"]:
        if file.get("shared_with"):
            yield to_printable(f"{file['path']} was changed by {', '.join(file['shared_with'])}, too")


def _print_tool_answer(
    tool: str,
    arguments: dict[str, Any],
    render: Any,
    group: str,
    path: str,
    place: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_arguments(app.database, group, arguments)
        call = Call(tool=tool, carries_notices=False)
        answer = invoke(app.database, app.build_toolset("tracking")[tool], known, call)
        if tool == "get_context":
            answer = add_context_states(app, answer)
    print_answer(answer, as_json=as_json, render=render)
