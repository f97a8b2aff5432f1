"""The section about deepwork in AGENTS.md, CLAUDE.md or GEMINI.md, between two marks."""

from __future__ import annotations

import re
from collections.abc import Collection

from deepwork.setup.jsonc import UnreadableText, get_line_number

BEGIN = "<!-- deepwork:begin, written by `deepwork setup`, which replaces the text between the marks -->"
END = "<!-- deepwork:end -->"
_BEGIN_PATTERN = re.compile(r"<!-- deepwork:begin\b[^\n]*-->")

_INTRODUCTION = """\
## Working with deepwork

The MCP server `deepwork` keeps your work durable and visible: trust its records, also after a restart or
compaction. Use it for anything longer than a few minutes.
"""

_WAYS_OF_WORKING = {
    "jobs": """\
- **A recipe exists** (`get_workflows` lists them): `start_workflow` with goal, job_name and workflow_name; do
  what `step_instructions` say; `finished_step` with the output files; on `needs_work` fix it and call again;
  continue until `workflow_complete`. Lost? `get_session`.
""",
    "plans": """\
- **Many tasks, or many agents**: check `workflow_list`, else `workflow_create` and `workflow_set_plan`.
  Then each agent: `workflow_next_tasks`, `task_claim`, `task_load_context`, work, `checkpoint_add`,
  `task_update_status` (completed with an outcome, or failed with an error), repeat.
  Lost? `task_load_context`.
""",
    "tracking": """\
- **Anything else**: `start_workflow` with name and objective, `start_phase`; for each piece `start_task`,
  `log_decision`, `log_issue` (requires_human_review if you are stuck), `complete_task`; at the end
  `complete_phase` and `complete_workflow`. Lost? `get_tracked_workflows`, then `get_context`.
""",
}

_RULES_BY_TOOLSETS = {
    ("agents",): "At the start `agent_register`; pass the id it returns to every call that takes an agent.",
    (
        "plans",
        "templates",
    ): "Before you plan common work: `template_list`; `template_apply` creates a whole plan.",
    ("plans", "workspaces"): "Work in the tree that `task_claim` names; `workspace_check` before you merge.",
    (
        "reviews",
    ): "Before you finish work: `get_review_instructions`, run what it lists, `mark_review_passed`.",
    ("messages",): "Between tasks: `message_list`; reply with `message_send` and reply_to_id.",
}
"""Further rules, each included if all its toolsets are on."""

_LAST_RULE = (
    "Report while you work, with ids from answers, not from memory. An error has a `suggestion`: follow it."
)


def render_section(toolsets: Collection[str]) -> str:
    """Render the section for these toolsets: which way to work, the first calls, and how to resume."""
    ways = [text for name, text in _WAYS_OF_WORKING.items() if name in toolsets]
    rules = [f"- {text}\n" for names, text in _RULES_BY_TOOLSETS.items() if set(names) <= set(toolsets)]
    choice = ["\nChoose one way:\n\n", *ways] if ways else []
    return "".join([_INTRODUCTION, *choice, "\n", *rules, f"- {_LAST_RULE}"])


def insert_section(text: str, body: str) -> str:
    """Replace the section, or append it if there is none."""
    span = _find_span(text)
    # Detect line endings in an existing section, not in the whole text: a preceding bare \r would mislead.
    looked_at = text[span[0] : span[1]] if span else text
    newline = "\r\n" if re.match(r"[^\n]*\r\n", looked_at) else "\n"
    block = f"{BEGIN}\n{body}\n{END}".replace("\n", newline)
    if span:
        return text[: span[0]] + block + text[span[1] :]
    if not text:
        return block + newline
    return text + newline * (1 if text.endswith("\n") else 2) + block + newline


def remove_section(text: str) -> str:
    """Remove the section and the blank line before it."""
    if not (span := _find_span(text)):
        return text
    before, after = text[: span[0]], text[span[1] :]
    newline = "\r\n" if before.endswith("\r\n") or after.startswith("\r\n") else "\n"
    return before.removesuffix(newline) + after.removeprefix(newline)


def has_section(text: str) -> bool:
    return _find_span(text) is not None


def _find_span(text: str) -> tuple[int, int] | None:
    begin = _BEGIN_PATTERN.search(text)
    end = text.find(END, begin.end() if begin else 0)
    if begin is None and end < 0:
        return None
    if begin is None or end < 0:
        there, missing = ("end", "begin") if begin is None else ("begin", "end")
        position = begin.start() if begin else end
        raise UnreadableText(
            f"The mark deepwork:{there} has no matching deepwork:{missing}", get_line_number(text, position)
        )
    if second := _BEGIN_PATTERN.search(text, begin.end()):
        raise UnreadableText(
            "The mark deepwork:begin occurs a second time", get_line_number(text, second.start())
        )
    return begin.start(), end + len(END)
