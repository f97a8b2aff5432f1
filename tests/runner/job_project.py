"""A project with a job, a shell script as its agent, and runs of the job."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from application import make_app
from deepwork.delivery.runner.models import Attempt, Run, RunRequest
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.files.private import make_state_folder
from jobs.project import make_step, write_job
from runner.endings import PATIENCE_SECONDS
from runner.person_checkout import create_checkout, list_differences, take_fingerprint
from workspaces.make import run_git

JOB, GOAL, PERSON = "chain/main", "Week 46", "human:ada"
WRITE_A, WRITE_B = (
    "*/a) echo one > a.md; echo 'A is written.' ;;",
    "*/b) cat a.md > b.md; echo 'B is written.' ;;",
)


class JobProject:
    """A person's checkout with a committed job of the steps `a` and `b`."""

    def __init__(
        self, folder: Path, location: str, steps: Sequence[dict[str, Any]] = (), **flags: Any
    ) -> None:
        self.folder = create_checkout(folder / "checkout")
        self._location, self._flags = location, flags
        (self.folder / ".gitignore").write_text("/ignored.txt\n")
        make_state_folder(self.folder / ".deepwork")
        write_job(self.folder, "chain", list(steps) or [make_step("a"), make_step("b")])
        run_git(self.folder, "add", ".deepwork", ".gitignore")
        run_git(self.folder, "commit", "-qm", "job", "--", ".deepwork", ".gitignore")
        self.app = self.open_app()
        self.fingerprint = take_fingerprint(self.folder)
        self.starts = folder / "starts"
        self._agent = folder / "agent.sh"
        self.set_agent(WRITE_A, WRITE_B)

    def open_app(self) -> Application:
        """Open the store, as another process would."""
        app = make_app(self.folder, self._location, **self._flags)
        with app.database.reading():
            return app

    def set_agent(self, *cases: str) -> None:
        """Let the agent do this, by step; $START counts its processes, whose prompts are kept."""
        self.starts.mkdir(exist_ok=True)
        body = "\n".join(["set -e", f"cd_to='{self.starts}'", 'START=$(($(ls "$cd_to" | wc -l) + 1))'])
        kept = 'cat > "$cd_to/$START"'
        self._agent.write_text(f"{body}\n{kept}\ncase $DEEPWORK_TASK in\n" + "\n".join(cases) + "\nesac\n")

    @property
    def command(self) -> str:
        return f"sh {self._agent} {{prompt_file}}"

    @property
    def prompts(self) -> list[str]:
        """What the agents were told, in the order of their starts."""
        return [path.read_text() for path in sorted(self.starts.iterdir(), key=lambda path: int(path.name))]

    def start(self, **options: Any) -> Run:
        return self.app.runner.start_job(JOB, GOAL, RunRequest(agents=(self.command,), options=options))

    def run(self, **options: Any) -> Run:
        """Run the job until it is done or needs a person."""
        return self.drive(self.start(**options).id)

    def drive(self, run_id: str) -> Run:
        stop = threading.Event()
        timer = threading.Timer(PATIENCE_SECONDS, stop.set)
        timer.start()
        try:
            return self.app.runner.drive(run_id, stop)
        finally:
            timer.cancel()

    def list_attempts(self, run: Run) -> list[Attempt]:
        with self.app.database.reading() as tx:
            return AttemptStore(tx).list_of_run(run.id)

    def list_stages(self, run: Run) -> list[tuple[str, str, int]]:
        """List the step, the stage and the number of starts of each attempt."""
        return [(each.task_id.partition("/")[2], each.stage, each.starts) for each in self.list_attempts(run)]

    def find_tree(self, run: Run) -> Path:
        return Path(self.list_attempts(run)[0].tree or "")

    def read_result(self, run: Run, path: str) -> str:
        """Return a file of the branch that has the result."""
        return run_git(self.folder, "show", f"{self.list_attempts(run)[0].branch}:{path}")

    def decide(self, action: str, run: Run | None = None, **given: Any) -> Any:
        """Decide as a person, in the tree of the run or about an approval."""
        app = make_app(self.find_tree(run), self._location, **self._flags) if run else self.app
        try:
            return invoke(app.database, app.operations[action], given, Call(PERSON, action))
        finally:
            if run:
                app.close()

    def open_server(self, tree: Path) -> Application:
        """Open what an agent's own server offers in the tree of the run."""
        return make_app(tree, self._location, **self._flags)

    def list_approvals(self) -> list[str]:
        """List the approvals that people have not decided about."""
        with self.app.database.reading() as tx:
            rows = tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending'")
        return [row["id"] for row in rows]

    def close(self) -> None:
        self.app.close()
        assert list_differences(self.fingerprint, self.folder) == []
