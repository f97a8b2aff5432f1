"""Builds and wires all services of one deepwork process.

Imports a package when one of its services is first used: a server must start fast, and a command uses few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.edge.server.invocation import JobStackReader
from deepwork.edge.server.registry import OperationSpec, Tools, describe_class, import_class
from deepwork.kernel.config import STATE_FOLDER, Settings
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import FoundOnFirstUse

if TYPE_CHECKING:
    from deepwork.delivery.cleaning import CleaningOperations
    from deepwork.delivery.feedback.operations import FeedbackOperations
    from deepwork.delivery.landing.operations import LandingOperations
    from deepwork.delivery.provenance.verification import ProvenanceVerifier
    from deepwork.delivery.rewind.operations import RewindOperations
    from deepwork.delivery.runner.lanes import LaneOperations
    from deepwork.delivery.runner.operations import RunOperations
    from deepwork.delivery.runner.plan_edits import PlanEditOperations
    from deepwork.delivery.runner.preparing import AgentDoor
    from deepwork.delivery.runner.runner import Runner
    from deepwork.delivery.runner.service import AllowParallelTasks
    from deepwork.delivery.runner.transcripts import TranscriptOperations
    from deepwork.edge.server.assembly.delivery import Landings
    from deepwork.edge.server.assembly.jobs import JobsAssembly
    from deepwork.edge.server.assembly.trees import TreesAssembly
    from deepwork.edge.server.start_workflow import StartWorkflow
    from deepwork.gates.access.operations import AuditOperations
    from deepwork.gates.approvals.models import ApprovalKind
    from deepwork.gates.approvals.operations import ApprovalOperations
    from deepwork.gates.approvals.service import DecisionHandler
    from deepwork.gates.checks.operations import ProofOperations
    from deepwork.gates.checks.service import CheckService
    from deepwork.gates.reviews.operations import ReviewOperations
    from deepwork.gates.reviews.tools import ReviewTools
    from deepwork.kernel.database.transaction import Clock, Database, EventLog, Transaction
    from deepwork.kernel.events.feed import EventFeed
    from deepwork.views.notifications.sender import NotificationSender
    from deepwork.views.overview.agent_operations import AgentOperations
    from deepwork.views.overview.approval_evidence import ApprovalEvidenceOperations
    from deepwork.views.overview.inbox_evidence import InboxEvidenceOperations
    from deepwork.views.overview.report import ReportOperations
    from deepwork.views.overview.review_operations import ReviewBenchOperations
    from deepwork.views.overview.states.store import LocalProcesses
    from deepwork.views.overview.states.view import StateView
    from deepwork.views.overview.why import WhyService
    from deepwork.views.overview.why_operations import WhyOperations
    from deepwork.views.overview.work_looking import WorkLooker
    from deepwork.work.agents.presence import Presence
    from deepwork.work.agents.tools import AgentTools
    from deepwork.work.jobs.quality_gate import QualityGate
    from deepwork.work.jobs.sessions.state_manager import StateManager
    from deepwork.work.messages.tools import MessageTools
    from deepwork.work.plans.models import Task
    from deepwork.work.plans.plan_tools import PlanTools
    from deepwork.work.plans.task_directory import PlanTaskDirectory
    from deepwork.work.plans.task_proofs import TaskProver
    from deepwork.work.plans.task_reports import TaskReports
    from deepwork.work.plans.task_tools import TaskTools
    from deepwork.work.templates.tools import TemplateTools
    from deepwork.work.tracking.attribution_service import AttributionService
    from deepwork.work.tracking.context_tools import ContextTools
    from deepwork.work.tracking.diffs import DiffService
    from deepwork.work.tracking.log_tools import LogTools
    from deepwork.work.tracking.operations import TrackOperations
    from deepwork.work.tracking.plan_task_tracker import PlanTaskTracker
    from deepwork.work.tracking.task_proofs import TrackedTaskProver
    from deepwork.work.tracking.tools import TrackTools
    from deepwork.work.wishes.operations import WishOperations
    from deepwork.work.workspaces.repositories import RepositoryLocator
    from deepwork.work.workspaces.service import WorkspaceService
    from deepwork.work.workspaces.tools import RepositoryTools, WorkspaceTools

_COMBINED = "deepwork.edge.server.start_workflow:StartWorkflow"


@dataclass
class Application:
    """The services behind every interface (MCP, HTTP, command line), each built on first use."""

    settings: Settings
    clock: Clock | None = None
    shared_database: Database | None = None
    """The database of another application of this process, which closes it."""
    _tools: dict[str, Tools] = field(default_factory=dict, init=False, repr=False)
    """The objects with tools that have been built, by the path of their class."""

    @cached_property
    def database(self) -> Database:
        """The database; the file is opened on first use."""
        if self.shared_database is not None:
            return self.shared_database
        from deepwork.kernel.database.opening import open_engine
        from deepwork.kernel.database.transaction import Database
        from deepwork.kernel.files.private import make_state_folder

        is_in_project = not self.settings.database and not self.settings.global_store
        database = Database(
            open_engine(self.settings.database_location),
            FoundOnFirstUse(_find_event_log),
            self.clock,
            partial(make_state_folder, self.settings.store_folder) if is_in_project else None,
        )
        database.subscribe(
            # Not as `PlanEvent`: most commands need not import plans.
            ("plan_task:claimed", "plan_task:updated", "plan_task:released"),
            FoundOnFirstUse(lambda: self._plan_task_tracker.handle_events),
        )
        database.subscribe(
            ("checkpoint:created",), FoundOnFirstUse(lambda: self._plan_task_tracker.handle_checkpoints)
        )
        return database

    @property
    def has_open_store(self) -> bool:
        """Whether the database was used before, so that using it again does not have to open it."""
        return "database" in self.__dict__ and self.database.is_prepared

    @cached_property
    def feed(self) -> EventFeed:
        from deepwork.kernel.events.feed import EventFeed

        return EventFeed(self.database)

    @cached_property
    def presence(self) -> Presence:
        from deepwork.work.agents.presence import Presence

        settings = self.settings
        return Presence(
            self.database, settings.lease_seconds, is_read_only=settings.read_only, agent_id=settings.agent_id
        )

    @cached_property
    def jobs(self) -> JobsAssembly:
        """The services for jobs."""
        return self._build_jobs(self.settings)

    def _build_jobs(self, settings: Settings, *, is_for_runner: bool = False) -> JobsAssembly:
        """Build the services for jobs of this project, or of another tree of its repository."""
        from deepwork.edge.server.assembly.jobs import JobsAssembly

        find_actor = self.presence.find_unnamed_id
        return JobsAssembly(settings, self.database, lambda: self.checks, find_actor, is_for_runner)

    @property
    def sessions(self) -> StateManager:
        return self.jobs.sessions

    @property
    def quality_gate(self) -> QualityGate | None:
        return self.jobs.quality_gate

    @cached_property
    def registry(self) -> dict[str, OperationSpec]:
        """Every tool by name, whatever the settings select.

        Jobs and tracking both have a `start_workflow`: with both toolsets on, a combined tool replaces them.
        """
        toolsets = {name: self.build_toolset(name) for name in self.toolsets}
        offered = self.settings.toolsets
        if {"jobs", "tracking"} <= set(offered) or "all" in offered:
            toolsets["jobs"] |= self._describe(_COMBINED)
            del toolsets["tracking"]["start_workflow"]
        elif "tracking" in offered:
            del toolsets["jobs"]["start_workflow"]
        else:
            del toolsets["tracking"]["start_workflow"]
        found = {name: spec for specs in toolsets.values() for name, spec in specs.items()}
        return dict(sorted(found.items()))

    @cached_property
    def operations(self) -> dict[str, OperationSpec]:
        """Everything that anybody can call, by name: the tools, and what only people can do."""
        described = [self._describe(path) for path in self._people_classes]
        return self.registry | {name: spec for specs in described for name, spec in specs.items()}

    def _build_rewind_operations(self) -> RewindOperations:
        from deepwork.edge.server.assembly.delivery import build_rewind_operations

        folder = self.settings.repository_root / STATE_FOLDER
        parts = self.database, self.presence, self.repositories, self._attribution
        return build_rewind_operations(*parts, lambda: self.landings.prepared, folder)

    def _build_approval_operations(self) -> ApprovalOperations:
        from deepwork.gates.approvals.operations import ApprovalOperations
        from deepwork.work.agents.store import AgentStore

        return ApprovalOperations(
            self.database, self._find_decision_handler, lambda tx, ids: AgentStore(tx).get_names(ids)
        )

    def _build_proof_operations(self) -> ProofOperations:
        from deepwork.gates.checks.operations import ProofOperations

        return ProofOperations(self.database, lambda: self.checks)

    def _build_approval_evidence(self) -> ApprovalEvidenceOperations:
        from deepwork.views.overview.approval_evidence import ApprovalEvidenceOperations

        return ApprovalEvidenceOperations(self.database, self._work_looker, self._read_check_output)

    def _build_inbox_evidence(self) -> InboxEvidenceOperations:
        from deepwork.views.overview.inbox_evidence import InboxEvidenceOperations

        parts = self.database, self._view_states, self._work_looker
        return InboxEvidenceOperations(*parts, self._read_check_output)

    def _build_audit_operations(self) -> AuditOperations:
        from deepwork.delivery.runner.store import AttemptStore
        from deepwork.gates.access.operations import AuditOperations

        return AuditOperations(self.database, lambda tx, agents: AttemptStore(tx).list_work(agents))

    def _build_review_operations(self) -> ReviewOperations:
        from deepwork.gates.reviews.operations import ReviewOperations

        return ReviewOperations(self.reviews.planner, self.database)

    def _build_cleaning_operations(self) -> CleaningOperations:
        from deepwork.delivery.cleaning import CleaningOperations
        from deepwork.edge.server.assembly.trees import open_git

        folder = self.processes.state_folder
        return CleaningOperations(self.database, self.repositories.host, folder, open_git)

    def _build_review_bench(self) -> ReviewBenchOperations:
        from deepwork.views.overview.review_operations import ReviewBenchOperations

        parts = self.database, self._view_states, self._work_looker
        return ReviewBenchOperations(*parts, self._read_check_output)

    def _read_check_output(self, name: str) -> bytes | None:
        return self.checks.outputs.read(name)

    @cached_property
    def _work_looker(self) -> WorkLooker:
        from deepwork.views.overview.work_looking import WorkLooker

        return WorkLooker(self._diffs, self.get_checks)

    def _build_feedback_operations(self) -> FeedbackOperations:
        from deepwork.delivery.feedback.operations import FeedbackOperations

        return FeedbackOperations(self.database, self._diffs)

    def _build_landing_operations(self) -> LandingOperations:
        from deepwork.delivery.landing.operations import LandingOperations

        def read_output(name: str) -> bytes | None:
            return self.checks.outputs.read(name)

        service = lambda: self.landings.service  # noqa: E731
        return LandingOperations(self.database, service, self._view_states, read_output)

    def _build_run_operations(self) -> RunOperations:
        from deepwork.delivery.runner.operations import RunOperations
        from deepwork.views.overview.run_store import name_work

        find_tree = FoundOnFirstUse(_find_tree_finder)
        folder = self.processes.state_folder
        allow = FoundOnFirstUse(_find_parallel_allowance)
        return RunOperations(self.database, folder, self._view_states, name_work, find_tree, allow)

    def _build_report_operations(self) -> ReportOperations:
        from deepwork.edge.server.assembly.trees import open_git
        from deepwork.views.overview.report import ReportOperations

        return ReportOperations(self.database, self._view_states, open_git)

    def _build_wish_operations(self) -> WishOperations:
        from deepwork.edge.server.assembly.trees import OwnBranches
        from deepwork.work.wishes.operations import WishOperations, WishParts

        parts = WishParts(self.repositories, self.task_prover, OwnBranches(), self._view_states)
        return WishOperations(self.database, parts)

    def _build_plan_edits(self) -> PlanEditOperations:
        from deepwork.delivery.runner.plan_edits import PlanEditOperations

        return PlanEditOperations(
            self.database, self.presence, lambda: self._plan_tools, self._build_task_tools
        )

    def _build_lane_operations(self) -> LaneOperations:
        from deepwork.delivery.runner.lanes import LaneOperations
        from deepwork.views.overview.run_store import name_work

        return LaneOperations(self.database, self._view_states, name_work)

    def _build_transcript_operations(self) -> TranscriptOperations:
        from deepwork.delivery.runner.transcripts import TranscriptOperations

        return TranscriptOperations(self.database, self.processes.state_folder)

    def _view_states(self, tx: Transaction) -> StateView:
        """Return what judges the states of things in this transaction."""
        from deepwork.views.overview.states.view import StateView

        return StateView(tx, self.processes)

    def build_notification_sender(self) -> NotificationSender:
        """Build what tells this user's channels about this store."""
        from deepwork.views.notifications.sender import NotificationSender
        from deepwork.views.notifications.settings import NotificationFile

        return NotificationSender(self.database, self._view_states, NotificationFile())

    def _find_decision_handler(self, kind: ApprovalKind) -> DecisionHandler | None:
        """Return what carries out the decisions about a kind of subject."""
        if kind in ("plan", "task_before", "task"):
            from deepwork.work.plans.task_reports import PlanDecisions

            return PlanDecisions(self.database, self._complete_approved_task)
        if kind == "landing":
            from deepwork.delivery.landing.operations import LandingDecisions

            return LandingDecisions(lambda: self.landings.service)
        return None

    def _complete_approved_task(self, task: Task) -> None:
        """Complete a task as its agent reported it; the audit log has that in the name of who approved it."""
        from deepwork.gates.access.store import record_part

        report: dict[str, Any] = {"id": task.id, "status": "completed", "outcome": task.outcome}
        report |= {"outcome_detail": dict(task.outcome_detail)} if task.outcome_detail else {}
        with record_part(self.database, "task_update_status", report):
            self._task_reports.complete_approved(task)

    @property
    def toolsets(self) -> list[str]:
        """The names of all toolsets."""
        return list(dict.fromkeys(describe_class(path).traits.toolset for path in self._toolset_classes))

    @property
    def _toolset_classes(self) -> list[str]:
        others = (_COMBINED, *self._people_classes)
        return [path for path in _BUILDERS if path not in others]

    @property
    def _people_classes(self) -> list[str]:
        return [path for path in _BUILDERS if describe_class(path).traits.people_only]

    def build_toolset(self, name: str) -> dict[str, OperationSpec]:
        """Build the tools of one toolset, by name."""
        paths = [path for path in self._toolset_classes if describe_class(path).traits.toolset == name]
        found = {tool: spec for path in paths for tool, spec in self._describe(path).items()}
        return dict(sorted(found.items()))

    def _describe(self, path: str) -> dict[str, OperationSpec]:
        """Describe the operations of a class; the object is built when the first of them is called."""
        return {
            spec.name: replace(spec, find_method=partial(self._find_method, path, spec.name))
            for spec in describe_class(path).specs
        }

    def _find_method(self, path: str, name: str) -> Callable[..., Any]:
        if path not in self._tools:
            self._tools[path] = _BUILDERS[path](self)
        method: Callable[..., Any] = getattr(self._tools[path], name)
        return method

    @cached_property
    def reviews(self) -> ReviewTools:
        """The tools for review rules."""
        from deepwork.edge.server.assembly.trees import open_git
        from deepwork.gates.reviews.planner import ReviewPlanner
        from deepwork.gates.reviews.tools import ReviewTools

        git = open_git(self.settings.project_root)
        planner = ReviewPlanner(git, self.database, self.settings.quality_gate_max_attempts)
        return ReviewTools(planner, self.database, self.settings.platform, self.presence.find_unnamed_id)

    def _build_agent_tools(self) -> AgentTools:
        from deepwork.work.agents.tools import AgentTools

        return AgentTools(self.database, self.presence, self._task_directory)

    def _build_message_tools(self) -> MessageTools:
        from deepwork.work.messages.tools import MessageTools

        read_only = self.settings.read_only
        return MessageTools(self.database, self.presence, self._task_directory, is_read_only=read_only)

    def _build_start_workflow(self) -> StartWorkflow:
        from deepwork.edge.server.start_workflow import StartWorkflow

        return StartWorkflow(self.jobs.tools, self._track_tools)

    @cached_property
    def _plan_tools(self) -> PlanTools:
        from deepwork.work.plans.models import FileConflicts
        from deepwork.work.plans.plan_tools import PlanTools

        return PlanTools(
            self.database,
            self.presence,
            self.repositories,
            self.task_prover,
            has_many_projects=self._has_many_projects,
            file_conflicts=FileConflicts(self.settings.file_conflicts),
        )

    def _build_task_tools(self) -> TaskTools:
        from deepwork.work.plans.task_tools import TaskTools

        only = str(self.settings.repository_root) if self._has_many_projects else None
        return TaskTools(self.database, self.presence, self._task_reports, self._workspace_service, only)

    @cached_property
    def _task_reports(self) -> TaskReports:
        from deepwork.work.plans.status_changes import WorkGate
        from deepwork.work.plans.task_reports import TaskReports

        gate = WorkGate(self.database, self.presence, lambda: self._diffs)
        return TaskReports(self.database, self.presence, self.task_prover, gate, self._workspace_service)

    @cached_property
    def task_prover(self) -> TaskProver:
        """Proves the checks of planned tasks."""
        from deepwork.work.plans.task_proofs import TaskProver

        return TaskProver(self.database, self.presence, self.get_checks, lambda: self._plan_task_tracker)

    def _build_template_tools(self) -> TemplateTools:
        from deepwork.work.templates.catalog import TemplateCatalog
        from deepwork.work.templates.tools import TemplateTools

        catalog = TemplateCatalog(self.settings.project_root, Path.home())
        return TemplateTools(self.database, self._plan_tools, catalog, self.task_prover, self.repositories)

    def _build_workspace_tools(self) -> WorkspaceTools:
        from deepwork.work.workspaces.tools import WorkspaceTools

        return WorkspaceTools(self.database, self._workspace_service)

    def _build_repository_tools(self) -> RepositoryTools:
        from deepwork.work.workspaces.tools import RepositoryTools

        return RepositoryTools(self.database, self.repositories)

    @cached_property
    def _track_tools(self) -> TrackTools:
        from deepwork.work.tracking.tools import TrackTools

        roots = self.settings.repository_root, self.settings.project_root
        return TrackTools(self.database, self._attribution, self.tracked_task_prover, *roots)

    @cached_property
    def tracked_task_prover(self) -> TrackedTaskProver:
        """Proves the checks of tracked tasks."""
        from deepwork.work.tracking.task_proofs import TrackedTaskProver

        project = self.settings.project_root
        return TrackedTaskProver(self.database, self._attribution, project, lambda: self.checks)

    def _build_log_tools(self) -> LogTools:
        from deepwork.work.jobs.sessions.store import JobSessions
        from deepwork.work.tracking.log_tools import LogTools

        return LogTools(self.database, JobSessions())

    def _build_agent_operations(self) -> AgentOperations:
        from deepwork.views.overview.agent_operations import AgentOperations

        return AgentOperations(self.database, self.presence)

    def _build_track_operations(self) -> TrackOperations:
        from deepwork.views.overview.run_refs import StoredRuns
        from deepwork.work.tracking.operations import TrackOperations

        return TrackOperations(self.database, StoredRuns(), self._diffs)

    @cached_property
    def _diffs(self) -> DiffService:
        from deepwork.work.tracking.diffs import DiffService

        return DiffService(self.database, self._attribution)

    def _build_context_tools(self) -> ContextTools:
        from deepwork.work.jobs.sessions.store import JobSessions
        from deepwork.work.tracking.context_tools import ContextTools

        return ContextTools(self.database, self.presence, self._diffs, JobSessions())

    @cached_property
    def _workspace_service(self) -> WorkspaceService:
        from deepwork.edge.server.assembly.trees import open_git
        from deepwork.work.workspaces.service import WorkspaceService
        from deepwork.work.workspaces.worktrees import WorktreeManager

        return WorkspaceService(self.database, WorktreeManager(open_git), self.repositories)

    @cached_property
    def repositories(self) -> RepositoryLocator:
        """Finds the repositories of plans."""
        from deepwork.work.workspaces.repositories import RepositoryLocator

        return RepositoryLocator(self.settings.repository_root, self._host)

    @cached_property
    def _trees(self) -> TreesAssembly:
        from deepwork.edge.server.assembly.trees import TreesAssembly

        return TreesAssembly(self.settings, self.database, self._host)

    @property
    def _attribution(self) -> AttributionService:
        return self._trees.attribution

    @property
    def verifier(self) -> ProvenanceVerifier:
        """Verifies which tasks made the commits of this repository."""
        return self._trees.verifier

    @property
    def why(self) -> WhyService:
        """Explains why code of this repository exists."""
        return self._trees.why

    def _build_why_operations(self) -> WhyOperations:
        from deepwork.edge.server.assembly.trees import open_git
        from deepwork.views.overview.why_operations import WhyOperations

        return WhyOperations(self.why, self.verifier, open_git(self.settings.repository_root))

    @property
    def checks(self) -> CheckService:
        """The checks of this project."""
        return self.get_checks(self.settings.repository_root)

    def get_checks(self, project: Path) -> CheckService:
        """Return the checks of a project: this one, or another one that has a plan in this store."""
        return self._trees.get_checks(project)

    @cached_property
    def _plan_task_tracker(self) -> PlanTaskTracker:
        from deepwork.work.tracking.plan_task_tracker import PlanTaskTracker

        return PlanTaskTracker(
            self.database, self._attribution, self.repositories, self.settings.repository_root
        )

    @cached_property
    def _task_directory(self) -> PlanTaskDirectory:
        from deepwork.work.plans.task_directory import PlanTaskDirectory

        return PlanTaskDirectory(self.presence)

    @cached_property
    def landings(self) -> Landings:
        """The services that land work."""
        from deepwork.edge.server.assembly.delivery import Landings

        return Landings(self.database, self.repositories, self.get_checks)

    @cached_property
    def runner(self) -> Runner:
        """Starts agents and looks after them."""
        from deepwork.edge.server.assembly.runner import RunnerParts, build_runner

        return build_runner(
            RunnerParts(
                database=self.database,
                settings=self.settings,
                find_operation=lambda name: self.registry[name],
                prover=self.task_prover,
                workspaces=self._workspace_service,
                get_checks=self.get_checks,
                build_jobs=partial(self._build_jobs, is_for_runner=True),
                host=self._host,
                lease_ms=self.presence.lease_ms,
                get_landings=lambda: self.landings.service,
                record_heartbeats=self.presence.record_heartbeats,
                open_door=self._build_agent_door,
            )
        )

    def _build_agent_door(self) -> AgentDoor:
        """Build what answers agents: by name, as tools are, because it offers an application over MCP."""
        door: AgentDoor = import_module("deepwork.edge.server.agent_socket").build_door(self)
        return door

    @property
    def _has_many_projects(self) -> bool:
        return self.settings.global_store and not self.settings.database

    @property
    def _host(self) -> str:
        return self.settings.machine

    @cached_property
    def processes(self) -> LocalProcesses:
        """What this machine knows about who drives what."""
        from deepwork.views.overview.states.store import build_local_processes

        return build_local_processes(self.settings)

    @cached_property
    def job_stack(self) -> JobStackReader:
        """Lists a caller's active workflows as `job/workflow:step`, for the log."""

        def read(caller: str) -> list[str]:
            return [f"{entry.workflow}:{entry.step}" for entry in self.sessions.get_stack(caller)]

        return JobStackReader(self.settings.state_folder / "tmp", read)

    def close(self) -> None:
        if "database" in self.__dict__ and self.shared_database is None:
            self.database.close()


def _find_event_log() -> EventLog:
    from deepwork.gates.access.store import record_events

    return record_events


def _find_parallel_allowance() -> AllowParallelTasks:
    from deepwork.work.plans.recorder import allow_parallel_tasks

    return allow_parallel_tasks


def _find_tree_finder() -> Callable[[Database, str], Path | None]:
    from deepwork.delivery.runner.job_steps import find_tree_of_session

    return find_tree_of_session


def _build_with_database(path: str) -> Callable[[Application], Tools]:
    """Return what builds operations that need nothing but the database."""
    return lambda app: import_class(path)(app.database)  # type: ignore[call-arg] # its constructor


def _build_with_states(path: str) -> Callable[[Application], Tools]:
    """Return what builds operations that need the database, and the states of things."""
    return lambda app: import_class(path)(app.database, app._view_states)  # type: ignore[call-arg] # its constructor


_BUILDERS: dict[str, Callable[[Application], Tools]] = {
    "deepwork.work.agents.tools:AgentTools": Application._build_agent_tools,
    "deepwork.work.messages.tools:MessageTools": Application._build_message_tools,
    "deepwork.work.plans.plan_tools:PlanTools": lambda app: app._plan_tools,
    "deepwork.work.plans.task_tools:TaskTools": Application._build_task_tools,
    "deepwork.work.templates.tools:TemplateTools": Application._build_template_tools,
    "deepwork.work.workspaces.tools:WorkspaceTools": Application._build_workspace_tools,
    "deepwork.work.workspaces.tools:RepositoryTools": Application._build_repository_tools,
    "deepwork.work.tracking.tools:TrackTools": lambda app: app._track_tools,
    "deepwork.work.tracking.log_tools:LogTools": Application._build_log_tools,
    "deepwork.work.tracking.context_tools:ContextTools": Application._build_context_tools,
    "deepwork.work.jobs.tools:WorkflowTools": lambda app: app.jobs.tools,
    "deepwork.gates.reviews.tools:ReviewTools": lambda app: app.reviews,
    _COMBINED: Application._build_start_workflow,
    # What only people can do:
    "deepwork.gates.approvals.operations:ApprovalOperations": Application._build_approval_operations,
    "deepwork.views.overview.approval_evidence:ApprovalEvidenceOperations": (
        Application._build_approval_evidence
    ),
    "deepwork.views.overview.review_operations:ReviewBenchOperations": Application._build_review_bench,
    "deepwork.views.overview.inbox_evidence:InboxEvidenceOperations": Application._build_inbox_evidence,
    "deepwork.gates.checks.operations:ProofOperations": Application._build_proof_operations,
    "deepwork.gates.access.operations:AuditOperations": Application._build_audit_operations,
    "deepwork.gates.reviews.operations:ReviewOperations": Application._build_review_operations,
    "deepwork.work.jobs.operations:JobOperations": lambda app: app.jobs.operations,
    "deepwork.work.tracking.operations:TrackOperations": Application._build_track_operations,
    "deepwork.views.overview.agent_operations:AgentOperations": Application._build_agent_operations,
    "deepwork.delivery.cleaning:CleaningOperations": Application._build_cleaning_operations,
    "deepwork.delivery.feedback.operations:FeedbackOperations": Application._build_feedback_operations,
    "deepwork.delivery.landing.operations:LandingOperations": Application._build_landing_operations,
    "deepwork.views.overview.why_operations:WhyOperations": Application._build_why_operations,
    "deepwork.delivery.rewind.operations:RewindOperations": Application._build_rewind_operations,
    "deepwork.delivery.runner.operations:RunOperations": Application._build_run_operations,
    "deepwork.views.overview.report:ReportOperations": Application._build_report_operations,
    "deepwork.work.wishes.operations:WishOperations": Application._build_wish_operations,
    "deepwork.delivery.runner.plan_edits:PlanEditOperations": Application._build_plan_edits,
    "deepwork.delivery.runner.lanes:LaneOperations": Application._build_lane_operations,
    "deepwork.delivery.runner.transcripts:TranscriptOperations": Application._build_transcript_operations,
    **{
        path: _build_with_database(path)
        for path in (
            "deepwork.gates.access.operations:TokenOperations",
            "deepwork.gates.approvals.enrollment:EnrollmentOperations",
            "deepwork.views.overview.search_operations:SearchOperations",
            "deepwork.views.overview.since:SinceOperations",
            "deepwork.views.overview.spending:SpendingOperations",
            "deepwork.delivery.runner.words:WordOperations",
            "deepwork.delivery.runner.holding:AttemptOperations",
            "deepwork.work.messages.operations:MessageOperations",
            "deepwork.work.plans.operations:PlanOperations",
            "deepwork.work.workspaces.operations:WorkspaceOperations",
        )
    },
    **{
        path: _build_with_states(path)
        for path in (
            "deepwork.views.notifications.operations:NotificationOperations",
            "deepwork.views.overview.home_operations:HomeOperations",
            "deepwork.views.overview.inbox_operations:InboxOperations",
            "deepwork.views.overview.plan_graph:PlanGraphOperations",
            "deepwork.views.overview.run_progress:RunProgressOperations",
            "deepwork.views.overview.single_things:ThingOperations",
            "deepwork.views.overview.states.operations:StateOperations",
            "deepwork.views.overview.status:StatusOperations",
            "deepwork.views.overview.work_now:WorkNowOperations",
            "deepwork.views.overview.work_operations:WorkOperations",
            "deepwork.views.overview.work_detail_operations:WorkDetailOperations",
            "deepwork.views.overview.task_detail_operations:TaskDetailOperations",
            "deepwork.views.overview.task_table_operations:TaskTableOperations",
        )
    },
}

OPERATION_CLASSES = tuple(_BUILDERS)
"""The classes whose public methods are operations, as `module:name`."""
