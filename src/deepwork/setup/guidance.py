"""What an agent reads about deepwork in its project's own file, between two marks."""

from __future__ import annotations

import re
from collections.abc import Collection

from deepwork.setup.jsonc import Unreadable, line_of

BEGIN = "<!-- deepwork:begin, written by `deepwork setup`: it replaces what stands between the marks -->"
END = "<!-- deepwork:end -->"
_BEGIN = re.compile(r"<!-- deepwork:begin\b[^\n]*-->")

_HEAD = """\
## Working with deepwork

The MCP server `deepwork` keeps your work durable and visible: what it has recorded is true, also after a
restart or compaction. Use it for anything longer than a few minutes.
"""

_WAYS = {
    "jobs": """\
- **A recipe exists** (`get_workflows` lists them): `start_workflow` with goal, job_name and workflow_name; do
  what `step_instructions` say; `finished_step` with the output files; on `needs_work` mend it and call again;
  go on until `workflow_complete`. Lost? `get_session`.
""",
    "plans": """\
- **Many tasks, or many agents**: look into `workflow_list`, else `workflow_create` and `workflow_set_plan`.
  Then each agent: `workflow_next_tasks`, `task_claim`, `task_load_context`, work, `checkpoint_add`,
  `task_update_status` (completed with an outcome, or failed with an error), and again.
  Lost? `task_load_context`.
""",
    "tracking": """\
- **Anything else**: `start_workflow` with name and objective, `start_phase`; for each piece `start_task`,
  `log_decision`, `log_issue` (requires_human_review if you are stuck), `complete_task`; in the end
  `complete_phase` and `complete_workflow`. Lost? `get_tracked_workflows`, then `get_context`.
""",
}

_ALWAYS = {
    ("agents",): "At the start `agent_register`; use the id it gives in every call that asks for an agent.",
    (
        "plans",
        "templates",
    ): "Before you plan something usual: `template_list`; `template_apply` brings a whole plan.",
    ("plans", "workspaces"): "Work in the tree that `task_claim` names; `workspace_check` before you merge.",
    (
        "reviews",
    ): "Before you call work done: `get_review_instructions`, run what it lists, `mark_review_passed`.",
    ("messages",): "Between tasks: `message_list`; answer with `message_send` and reply_to_id.",
}
"""What holds besides, where all of these toolsets are on."""

_TAIL = (
    "Report while you work, with ids from answers, not from memory. An error has a `suggestion`: follow it."
)


def section(toolsets: Collection[str]) -> str:
    """The text for these toolsets: when which, the first call, the loop, and how to find back."""
    ways = [text for name, text in _WAYS.items() if name in toolsets]
    rules = [f"- {text}\n" for names, text in _ALWAYS.items() if set(names) <= set(toolsets)]
    choice = ["\nChoose one way:\n\n", *ways] if ways else []
    return "".join([_HEAD, *choice, "\n", *rules, f"- {_TAIL}"])


def put(text: str, body: str) -> str:
    """The text with the section: in its old place, else at the end."""
    span = _span(text)
    # A section has line ends of its own: behind a page that ends in a bare \r, the page seems to have others.
    looked_at = text[span[0] : span[1]] if span else text
    newline = "\r\n" if re.match(r"[^\n]*\r\n", looked_at) else "\n"
    block = f"{BEGIN}\n{body}\n{END}".replace("\n", newline)
    if span:
        return text[: span[0]] + block + text[span[1] :]
    if not text:
        return block + newline
    # A text without a last line end stays without one: so `take` knows what was there.
    return text + (newline + block + newline if text.endswith("\n") else newline * 2 + block)


def take(text: str) -> str:
    """The text without the section, as it was before."""
    if not (span := _span(text)):
        return text
    before, after = text[: span[0]], text[span[1] :]
    newline = "\r\n" if before.endswith("\r\n") or after.startswith("\r\n") else "\n"
    if after.startswith(newline):
        return before.removesuffix(newline) + after.removeprefix(newline)
    return before.removesuffix(newline).removesuffix(newline) + after


def is_there(text: str) -> bool:
    return _span(text) is not None


def _span(text: str) -> tuple[int, int] | None:
    begin = _BEGIN.search(text)
    end = text.find(END, begin.end() if begin else 0)
    if begin is None and end < 0:
        return None
    if begin is None or end < 0:
        there, missing = ("end", "begin") if begin is None else ("begin", "end")
        position = begin.start() if begin else end
        raise Unreadable(
            f"The mark deepwork:{there} stands here, but deepwork:{missing} does not", line_of(text, position)
        )
    if second := _BEGIN.search(text, begin.end()):
        raise Unreadable("The mark deepwork:begin stands here a second time", line_of(text, second.start()))
    return begin.start(), end + len(END)
