"""What a person looks at before they decide about an entry of the inbox, whatever its kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.gates.approvals.models import Approval
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import Proof, ProofSubject
from deepwork.gates.checks.responses import WeakenedTests, find_failing_tests
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Answer, Field, Id, IsoTime
from deepwork.kernel.attention import Attention
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Command
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.approval_evidence import ApprovalEvidence, ApprovalEvidenceOperations
from deepwork.views.overview.inbox import find_entry, read_inbox
from deepwork.views.overview.inbox_causes import list_blocked_names
from deepwork.views.overview.run_search_store import RunEventStore
from deepwork.views.overview.spending import Amounts, build_plan_spending, build_task_spending
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.work_looking import WorkLooker
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.diffs import ChangedFile
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.store import TrackStore

_MAX_LINES = 120
_MAX_EXCERPT = 60
_MAX_OUTPUT = 256 * 1024
_MAX_FINDINGS = 50
_MAX_TEXT = 20_000


class ItemFact(Answer):
    name: str
    value: str


class ItemCheck(Answer):
    """What a check said about the work: its first failure, and the end of what it printed, in color."""

    check: str
    verdict: str
    failing: list[str] | None = None
    excerpt: str | None = None
    """The part about the first test that failed."""
    output: str | None = None
    tests_run: int | None = None
    duration_ms: int | None = None
    proof_id: str | None = None


class ItemFinding(Answer):
    text: str
    by: str | None = None
    passed: bool | None = None


class LastWords(Answer):
    """What an agent said last about the work."""

    text: str
    agent: str | None = None
    at: IsoTime
    attempt_id: str | None = None


class ItemBlocked(Answer):
    agents: list[str]
    tasks: list[str]
    """The first open tasks that cannot be done before."""
    tasks_total: int


class InboxEvidence(Answer):
    """All that belongs to one decision; what is not known is left out."""

    id: str
    question: str
    """What is asked, in full."""
    facts: list[ItemFact]
    outcome: str | None = None
    checks: list[ItemCheck]
    findings: list[ItemFinding]
    last_words: LastWords | None = None
    base: str | None = None
    compared_with: str | None = None
    files: list[ChangedFile] | None = None
    files_count: int | None = None
    patch: str | None = None
    truncated: bool | None = None
    weakened: list[WeakenedTests] | None = None
    """What makes tests say less than before; look at it first."""
    warning: str | None = None
    shown: dict[str, Any] | None = None
    """What an approval covers, if that is no work: a plan, a budget, guarded files."""
    spent: Amounts | None = None
    budget: Amounts | None = None
    blocks: ItemBlocked
    commands: list[str]
    """What decides at a terminal."""


@dataclass(frozen=True)
class _Stored:
    """What the store knows about an entry."""

    entry: Attention
    facts: tuple[ItemFact, ...] = ()
    question: str = ""
    outcome: str | None = None
    approval: Approval | None = None
    proofs: tuple[Proof, ...] = ()
    findings: tuple[ItemFinding, ...] = ()
    last_words: LastWords | None = None
    spent: Mapping[str, Any] | None = None
    blocks: ItemBlocked | None = None


class InboxEvidenceOperations:
    """Reads what stands beside a question of the inbox."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(
        self,
        database: Database,
        view_states: Callable[[Transaction], StateView],
        looker: WorkLooker,
        read_output: Callable[[str], bytes | None],
    ) -> None:
        """`read_output` returns what a check printed, by the name of its file; None if that was removed."""
        self._database, self._view_states = database, view_states
        self._diffs, self._read_output = looker.diffs, read_output
        self._approvals = ApprovalEvidenceOperations(database, looker, read_output)

    @operation("read")
    def get_inbox_evidence(
        self,
        item: Annotated[Id, Field(description="KIND:ID, as the inbox shows it")],
        max_bytes: Annotated[int, Field(ge=1, le=1_000_000, description="Of the patch")] = 200_000,
    ) -> InboxEvidence:
        """What belongs to one decision: the work, its checks, findings, last words, cost, what it blocks."""
        with self._database.reading() as tx:
            stored = _load(tx, find_entry(read_inbox(self._view_states(tx)), item))
        checks = [self._describe_check(each) for each in stored.proofs]
        shown = stored.approval.shown if stored.approval else None
        work = self._read_work(stored, max_bytes)
        spent = stored.spent or {}
        return InboxEvidence(
            id=item,
            question=stored.question or stored.entry.detail or stored.entry.title,
            facts=list(stored.facts),
            outcome=stored.outcome,
            checks=sorted(checks, key=lambda each: each.verdict in _GREEN),
            findings=list(stored.findings),
            last_words=stored.last_words,
            shown=dict(shown) if shown and "patch" not in work else None,
            spent=Amounts(**spent["spent"]) if spent.get("spent") else None,
            budget=Amounts(**spent["budget"]) if spent.get("budget") else None,
            blocks=stored.blocks or ItemBlocked(agents=[], tasks=[], tasks_total=0),
            commands=_list_commands(stored.entry),
            **work,
        )

    def _read_work(self, stored: _Stored, max_bytes: int) -> dict[str, Any]:
        """Read what the work changed; `warning` says why that cannot be shown."""
        keys = ("files", "files_count", "patch", "truncated", "warning")
        if stored.approval is not None:
            found: ApprovalEvidence = self._approvals.get_approval_evidence(
                stored.approval.id, max_bytes=max_bytes
            )
            kept = {name: getattr(found, name) for name in (*keys, "compared_with", "weakened")}
            return {name: value for name, value in kept.items() if value is not None}
        task_id = stored.entry.task_id
        if task_id is None or "/" in task_id:
            return {}
        try:
            patch = self._diffs.get_patch(task_id, None, max_bytes)
        except (DeepworkError, OSError) as error:
            return {"warning": f"Cannot show what it changed: {error}"}
        kept = {name: getattr(patch, name) for name in (*keys, "base")}
        return {name: value for name, value in kept.items() if value is not None}

    def _describe_check(self, proof: Proof) -> ItemCheck:
        output = self._read_output(proof.output_file) if proof.output_file else None
        text = None if output is None else keep_colors(output[-_MAX_OUTPUT:].decode(errors="replace"))
        plain = None if text is None else remove_colors(text)
        failing = find_failing_tests(plain) if plain and not proof.is_green else []
        return ItemCheck.of(
            proof,
            check=proof.check_name,
            verdict=proof.shown_verdict.value,
            proof_id=proof.id,
            failing=failing or None,
            excerpt=find_failure(text, failing) if text and not proof.is_green else None,
            output=None if text is None else "\n".join(text.rstrip().split("\n")[-_MAX_LINES:]),
        )


_GREEN = ("passed", "flaky", "guarded", "waived")


# The store


def _load(tx: Transaction, entry: Attention) -> _Stored:
    """Load what is known; of an entry that stands for several, about the first of them."""
    first = entry.members[0]
    task_id = first.task_id or ""
    subject = _find_subject(first)
    proofs = tuple(ProofStore(tx).list_made_for(subject).values()) if subject else ()
    found: dict[str, Any] = {
        "entry": first,
        "proofs": proofs,
        "last_words": _find_last_words(tx, first),
        "blocks": _load_blocks(tx, entry),
    }
    if first.kind == "approval":
        found["approval"] = approval = ApprovalStore(tx).get(first.id)
        found["question"] = str(approval.shown.get("description") or approval.shown.get("summary") or "")
        found["outcome"] = approval.shown.get("outcome")
    if task_id.startswith("tk_"):
        task = TaskStore(tx).get(task_id)
        found["spent"] = build_task_spending(tx, task)
        found["outcome"] = found.get("outcome") or task.outcome
        found["facts"] = tuple(_list_task_facts(task.description, task.error))
    elif task_id.startswith("tt_"):
        found |= _load_tracked(tx, first)
    elif first.run_id and first.run_id.startswith("wf_"):
        found["spent"] = build_plan_spending(tx, PlanStore(tx).get(first.run_id))
    if first.kind == "gate":
        found["findings"] = tuple(_list_findings(tx, first))
    elif first.kind == "review":
        found["findings"] = (ItemFinding(text=str(first.record["findings"]), passed=False),)
    elif first.kind == "landing":
        found |= _load_landing(tx, first)
    return _Stored(**found)


def _find_subject(entry: Attention) -> ProofSubject | None:
    if entry.kind == "landing":
        return ProofSubject("landing", entry.id)
    if entry.task_id is None:
        return None
    kind = {"tk_": "task", "tt_": "tracked_task"}.get(entry.task_id[:3], "step")
    return ProofSubject(kind, entry.task_id)


def _list_task_facts(description: str, error: str | None) -> Iterator[ItemFact]:
    if error:
        yield ItemFact(name="error", value=error[:_MAX_TEXT])
    if description:
        yield ItemFact(name="task", value=description[:_MAX_TEXT])


def _load_tracked(tx: Transaction, entry: Attention) -> dict[str, Any]:
    task = TrackStore(tx).get_task(entry.task_id or "")
    outcome = task.outcome or {}
    facts = [ItemFact(name="goal", value=task.goal)] if task.goal else []
    found: dict[str, Any] = {"outcome": outcome.get("summary") or None}
    if entry.kind == "blocker" and (issue := NoteStore(tx).find_issue(entry.id)):
        found["question"] = issue.description
        facts.insert(0, ItemFact(name="tried", value=issue.resolution))
    elif reason := outcome.get("manual_review_reason"):
        found["question"] = reason
    return found | {"facts": tuple(facts)}


def _load_landing(tx: Transaction, entry: Attention) -> dict[str, Any]:
    landing = LandingStore(tx).get(entry.id)
    named = {"from": landing.source_branch, "onto": landing.target}
    facts = tuple(ItemFact(name=name, value=value) for name, value in named.items() if value)
    return {"question": landing.reason or "", "facts": facts}


def _find_last_words(tx: Transaction, entry: Attention) -> LastWords | None:
    """Return what the last agent at the task said last."""
    if not entry.task_id:
        return None
    for attempt in reversed(AttemptStore(tx).list_of_task(entry.task_id)):
        if text := _read_last_message(attempt):
            return LastWords(
                text=remove_invisible(text)[-_MAX_TEXT:],
                agent=attempt.profile,
                at=format_timestamp(attempt.updated_at),
                attempt_id=attempt.id,
            )
    return None


def _read_last_message(attempt: Attempt) -> str:
    state = json.loads(attempt.stream_state or "{}")
    return str(attempt.outcome or state.get("last_message") or "")


def _list_findings(tx: Transaction, entry: Attention) -> Iterator[ItemFinding]:
    """List what the reviews of the current step found, the newest first."""
    session = entry.record
    for event in reversed(RunEventStore(tx).list_reviews([session.id], _MAX_FINDINGS)):
        data = event["data"]
        if data.get("step_id") not in (None, session.step_id):
            continue
        for each in data.get("criteria_results") or ():
            words = f"{each.get('criterion')}: {each.get('feedback') or ''}".rstrip(": ")
            yield ItemFinding(text=words, by=data.get("reviewer"), passed=bool(each.get("passed")))
        if data.get("feedback"):
            passed = event["type"] == "review:passed"
            yield ItemFinding(text=data["feedback"], by=data.get("reviewer"), passed=passed)


def _load_blocks(tx: Transaction, entry: Attention) -> ItemBlocked:
    agents, tasks, total = list_blocked_names(tx, entry)
    return ItemBlocked(agents=agents, tasks=tasks, tasks_total=total)


def _list_commands(entry: Attention) -> list[str]:
    refuse = [Command.REFUSE.about(entry.id)] if entry.kind == "approval" else []
    return [each for each in (entry.next, *refuse) if each]


# What a check printed

_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_COLOR_PATTERN = re.compile(r"\x1b\[[0-9;:]*m")
_MARKS = "\u25cf\u2715\u2717\u00d7"
"""Begins a failing test of Jest, Vitest and Mocha; a check mark begins one that passed."""
_TITLE_PATTERN = re.compile(rf"[_-]{{3,}} \S.* [_-]{{3,}}$|--- FAIL: |---- \S+ stdout ----$|[{_MARKS}] ")
_END_PATTERN = re.compile(
    rf"[_=-]{{3,}}(\s|$)|--- (FAIL|PASS|SKIP): |---- \S+ stdout ----$|(FAIL|ok)\s|[{_MARKS}\u2713] "
)


def keep_colors(text: str) -> str:
    """Remove what a reader does not see, except the escape sequences that set colors."""
    parts: list[str] = []
    end = 0
    # A carriage return that is not part of a line end begins the line again, as progress bars do.
    text = re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\r\n", "\n"))
    for found in _ESCAPE_PATTERN.finditer(text):
        parts.append(remove_invisible(text[end : found.start()]))
        if _COLOR_PATTERN.fullmatch(found.group()):
            parts.append(found.group())
        end = found.end()
    return "".join([*parts, remove_invisible(text[end:])])


def remove_colors(text: str) -> str:
    """Remove the escape sequences that set colors."""
    return _COLOR_PATTERN.sub("", text)


def find_failure(text: str, failing: Sequence[str]) -> str | None:
    """Return the part of an output that is about the first test that failed; None if none is named."""
    lines = text.split("\n")
    plain = [remove_colors(line).rstrip() for line in lines]
    begin = next((place for place, line in enumerate(plain) if _is_title(line, failing)), None)
    if begin is None:
        named = {each.strip() for each in failing}
        begin = next((place for place, line in enumerate(plain) if line.strip() in named), None)
        if begin is None:
            return None
        return "\n".join(lines[begin : begin + _MAX_EXCERPT])
    after = range(begin + 1, len(plain))
    end = next((place for place in after if _END_PATTERN.match(plain[place].strip())), len(lines))
    return "\n".join(lines[begin : min(end, begin + _MAX_EXCERPT)]).rstrip()


def _is_title(line: str, failing: Sequence[str]) -> bool:
    """Whether a line begins the report on a test that failed."""
    if not _TITLE_PATTERN.match(line.strip()):
        return False
    words = [word for word in re.findall(r"\w{3,}", line) if word != "stdout" and word.strip("_")]
    return bool(words) and (not failing or any(words[-1] in each for each in failing))
