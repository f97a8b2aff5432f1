"""Prepares a start: the tree, its set-up, the prompt, the command; then starts the agent."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from deepwork.delivery.runner.adapters import LaunchRequest, McpServer, get_adapter
from deepwork.delivery.runner.agent_access import build_bridge_file, update_bridge_file
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import Attempt, AttemptStage, ProcessState, Run
from deepwork.delivery.runner.processes import (
    AlreadyStarted,
    ProcessIdentity,
    observe,
    read_identity,
    start_process,
)
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile, build_agent_environment
from deepwork.delivery.runner.service import AttemptService
from deepwork.delivery.runner.store import RunStore
from deepwork.delivery.runner.stream_state import StreamState, begin_start
from deepwork.delivery.runner.words import open_prompt, take_words
from deepwork.delivery.runner.work_sources import WorkPlace, WorkSources
from deepwork.delivery.runner.workspace_setup import PORT_VARIABLE, WorkspacePreparer, WorkspaceSettings
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.environment import BRIDGE_VARIABLE
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.private import make_private_folder, write_atomically
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with
from deepwork.work.wishes.store import find_role

log = logging.getLogger("deepwork")

SECONDS_PER_MINUTE = 60
_BRIDGE = Path(__file__).with_name("bridge.py")


@dataclass(frozen=True)
class RunnerFolders:
    """Where the runner works."""

    project: Path
    """The folder of the project, whose tree is never changed."""
    state_folder: Path


class AgentDoor(Protocol):
    """Answers the agents that the runner starts; the server, which the runner must not import, has one."""

    def open(self) -> Path:
        """Answer agents from now on, if that was not begun before; return the path of the socket."""

    def close(self) -> None:
        """Answer what was asked, and nothing more: another runner may take over."""


class AttemptPreparer:
    """Brings attempts from `claimed` to `running`. Every step can be repeated after a crash."""

    def __init__(
        self,
        database: Database,
        sources: WorkSources,
        places: RunnerFolders,
        load_workspace_settings: Callable[[], WorkspaceSettings],
        door: AgentDoor,
    ) -> None:
        self._database, self._sources, self._places, self._door = database, sources, places, door
        self._load_workspace_settings = load_workspace_settings
        self._attempts = AttemptService(database)
        self._answered: dict[AttemptFiles, int] = {}
        """The epochs of the claims whose tokens running agents have."""

    def prepare(self, run: Run, attempt: Attempt, profile: AgentProfile) -> Attempt | None:
        """Start the agent, or adopt the one that was started; None if another runner was faster."""
        files = self.locate_files(attempt)
        if observe(files).state is not ProcessState.NOT_STARTED:
            return self._adopt(attempt, read_identity(files))
        place = self._sources.find(attempt).provide_place(attempt)
        prepared = self._prepare_tree(attempt, place)
        if prepared is None:
            return None
        try:
            launched = self._launch(run, prepared, profile, files, place.folder)
        except AlreadyStarted:  # a runner that was killed is starting it: look again
            return None
        return None if launched is None else self._adopt(*launched)

    def has_started(self, attempt: Attempt) -> bool:
        """Return whether an agent was started, such as by a runner that was killed then."""
        return observe(self.locate_files(attempt)).state is not ProcessState.NOT_STARTED

    def preview(self, run: Run, task_id: str, profile: AgentProfile) -> dict[str, Any]:
        """Describe what would be started for a task."""
        name, place = self._sources.find(run).preview(run, task_id)
        attempt = _imagine_attempt(run, task_id, profile, str(place.tree))
        files = self.locate_files(attempt)
        launch, variables = self.build_launch(run, attempt, profile, files, place.folder)
        return {
            "task_id": task_id,
            "task": name,
            "profile": profile.name,
            "tree": str(place.tree),
            "folder": str(place.folder),
            "branch": place.branch,
            "argv": list(launch.argv),
            "env": sorted(variables),
        }

    def answer(self, attempt: Attempt) -> None:
        """Answer the calls of a running agent, also in a new claim, or if another runner started it."""
        files = self.locate_files(attempt)
        if self._answered.get(files) == attempt.claim_epoch:
            return
        key = self._read_key()
        self._answered[files] = attempt.claim_epoch
        try:
            update_bridge_file(key, attempt, files, self._door.open())
        except DeepworkError as error:  # such as a file that it replaced; it can work without our tools
            log.warning("The agent of %s cannot call deepwork: %s", attempt.id, error.message)

    def close(self) -> None:
        """Answer no agent any more."""
        self._door.close()

    @property
    def state_folder(self) -> Path:
        """The folder with the files of attempts."""
        return self._places.state_folder

    def locate_files(self, attempt: Attempt) -> AttemptFiles:
        """Return the files of the attempt's current start."""
        return AttemptFiles.locate(self._places.state_folder, attempt.id, attempt.starts)

    def build_launch(
        self, run: Run, attempt: Attempt, profile: AgentProfile, files: AttemptFiles, folder: Path
    ) -> tuple[Any, dict[str, str]]:
        """Return what would be started, and its environment."""
        adapter = get_adapter(profile.kind)
        with self._database.reading() as tx:
            _, role = find_role(tx, attempt.workflow_id, attempt.task_id)
        if role is not None:  # what its profile allows may change files
            profile = copy_with(profile, allow=())
        # The first start of an attempt continues a session if its prompt is about faults of earlier work.
        continues = attempt.starts > 1 or attempt.next_prompt is not None
        is_resume = continues and attempt.vendor_session is not None
        session = attempt.vendor_session or (str(uuid.uuid4()) if adapter.takes_session_id else None)
        request = LaunchRequest(
            profile=profile,
            tree=folder,
            prompt_file=files.prompt,
            folder=files.folder,
            session_id=session,
            is_resume=is_resume,
            mcp=_build_mcp_server(attempt, files),
            program=(sys.executable, "-P", "-m", "deepwork"),
            max_usd=self._measure_left_usd(run),
            is_review=role is not None,
        )
        launch = adapter.build_launch(request)
        variables = {
            **build_agent_environment(profile, os.environ),
            **launch.env,
            **self._build_variables(run, attempt),
            BRIDGE_VARIABLE: str(files.bridge),
        }
        return launch, variables

    def _measure_left_usd(self, run: Run) -> float | None:
        """Return the limit for the vendor's own program; what others spend meanwhile is checked live."""
        if run.options.max_usd is None:
            return None
        with self._database.reading() as tx:
            spent = RunStore(tx).sum_usd_micros(run.id) / MICROS_PER_USD
        return max(0.01, round(run.options.max_usd - spent, 2))

    def _adopt(self, attempt: Attempt, identity: ProcessIdentity | None) -> Attempt | None:
        with self._database.reading() as tx:
            now = tx.now
        changes: dict[str, Any] = {"started_at": now, "active_at": now, "next_prompt": None, "reason": None}
        if identity is not None:
            changes |= {"boot_id": identity.boot_id, "pid": identity.pid, "start_time": identity.start_time}
        return self._attempts.move(attempt, AttemptStage.RUNNING, **changes)

    # The tree

    def _prepare_tree(self, attempt: Attempt, place: WorkPlace) -> Attempt | None:
        preparer = WorkspacePreparer(self._database, attempt.host)
        prepared = preparer.prepare(place.main, place.tree, self._load_workspace_settings())
        return self._attempts.update(attempt, tree=str(place.tree), branch=place.branch, port=prepared.port)

    # The command

    def _launch(
        self, run: Run, attempt: Attempt, profile: AgentProfile, files: AttemptFiles, folder: Path
    ) -> tuple[Attempt, ProcessIdentity] | None:
        launch, variables = self.build_launch(run, attempt, profile, files, folder)
        state = begin_start(StreamState.from_json(attempt.stream_state), model=profile.model)
        stored = self._attempts.update(
            attempt,
            vendor_session=launch.session_id or attempt.vendor_session,
            stream_state=state.to_json(),
            stream_offset=0,
        )
        if stored is None:
            return None
        make_private_folder(files.folder)
        prompt = self._build_prompt(attempt)
        bridge = build_bridge_file(self._read_key(), attempt, self._door.open())
        written = {files.prompt: prompt, files.bridge: bridge, **launch.files}
        for path, content in written.items():  # an agent that a killed runner started may be reading them
            write_atomically(path, content.encode(), is_durable=False)
        seconds = run.options.minutes * SECONDS_PER_MINUTE
        return stored, start_process(files, launch.argv, variables, folder, seconds)

    def _build_prompt(self, attempt: Attempt) -> str:
        """Build the prompt of the next start; what people told about the task opens it."""
        prompt = attempt.next_prompt or self._sources.find(attempt).build_prompt(attempt)
        is_new = attempt.next_prompt is None
        with self._database.transaction() as tx:
            words = take_words(tx, attempt, is_new_session=is_new)
        return open_prompt(words, prompt, is_new_session=is_new)

    def _read_key(self) -> StoreKey:
        with self._database.reading() as tx:
            return tx.read_store_key()

    def _build_variables(self, run: Run, attempt: Attempt) -> dict[str, str]:
        variables = {
            "DEEPWORK_RUN": run.id,
            "DEEPWORK_ATTEMPT": attempt.id,
            "DEEPWORK_TASK": attempt.task_id,
            "DEEPWORK_AGENT_ID": attempt.agent_id,
            "DEEPWORK_CLAIM_EPOCH": str(attempt.claim_epoch),
            **self._sources.find(attempt).list_variables(attempt),
        }
        if attempt.port is not None:
            variables[PORT_VARIABLE] = str(attempt.port)
        return variables


def _build_mcp_server(attempt: Attempt, files: AttemptFiles) -> McpServer | None:
    """Return the server that an agent starts: a bridge to ours, which gets nothing but the name of a file."""
    if attempt.vendor == COMMAND_KIND:
        return None
    return McpServer((sys.executable, "-I", "-S", str(_BRIDGE), str(files.bridge)))


def _imagine_attempt(run: Run, task_id: str, profile: AgentProfile, tree: str) -> Attempt:
    """Return an attempt that is never stored, to show what one would do."""
    return Attempt(
        id="ATTEMPT",
        run_id="RUN",
        workflow_id=run.workflow_id,
        task_id=task_id,
        number=1,
        profile=profile.name,
        vendor=profile.kind,
        agent_id="AGENT",
        claim_epoch=1,
        stage=AttemptStage.PREPARING,
        host="",
        created_at=run.created_at,
        updated_at=run.created_at,
        starts=1,
        tree=tree,
    )
