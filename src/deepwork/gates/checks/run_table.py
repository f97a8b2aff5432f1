"""The runs of this process: each goes on in a thread while calls wait for it, leave and come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from deepwork.gates.checks.models import Proof


class CheckRun:
    """One run of a check, or the wait for that of another process."""

    def __init__(self, execute: Callable[[], Proof]) -> None:
        self._execute = execute
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._proof: Proof | None = None
        self._error: BaseException | None = None
        self.is_seen = False

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    @property
    def seconds(self) -> int:
        """How long it has been running."""
        return int(time.monotonic() - self._began)

    @property
    def is_done_with(self) -> bool:
        """Whether nobody needs its result any more."""
        return self.is_seen or self._error is not None

    def start(self) -> None:
        """Start its thread, which ends with this process."""
        threading.Thread(target=self._run, name="deepwork-check", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether it is over."""
        return self._is_over.wait(seconds)

    def get_proof(self) -> Proof:
        """Return the proof, or raise what ended the run; a later call with the same inputs runs it again."""
        self.is_seen = True
        if self._error is not None:
            raise self._error
        assert self._proof is not None
        return self._proof

    def _run(self) -> None:
        try:
            self._proof = self._execute()
        except BaseException as error:  # noqa: BLE001 - the calls that wait raise it
            self._error = error
        finally:
            self._is_over.set()


class RunTable:
    """The runs by what they prove; a finished one is kept until a call has got its result."""

    def __init__(self) -> None:
        self._runs: dict[str, CheckRun] = {}
        self._lock = threading.Lock()

    def join(self, key: str, execute: Callable[[], Proof]) -> CheckRun:
        """Return the run of this key that nobody has got the result of; otherwise start one."""
        with self._lock:
            for other in [each for each, run in self._runs.items() if run.is_over and run.is_done_with]:
                del self._runs[other]
            if key not in self._runs:
                self._runs[key] = CheckRun(execute)
                self._runs[key].start()
            return self._runs[key]
