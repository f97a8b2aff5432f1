"""`deepwork serve` on a host of the team; tests can kill and restart it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from chaos.team_hosts import Host

TOKEN = "token of every member of the team"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
START_SECONDS = 120


class TeamServer:
    """One server over HTTP, as its own process."""

    def __init__(self, host: Host, folder: Path, database_url: str, lease_seconds: int = 86_400) -> None:
        self.host, self.port = host, host.reserve_port()
        self._project = folder / host.name
        self._project.mkdir(exist_ok=True)
        self._environment = {
            **os.environ,
            "DEEPWORK_TOKEN": TOKEN,
            "DEEPWORK_DATABASE_URL": database_url,
            "DEEPWORK_LEASE_SECONDS": str(lease_seconds),
        }
        self._log = (self._project / "server.log").open("ab")
        self._process = self._start_process()

    def __enter__(self) -> Self:
        self.wait_until_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=START_SECONDS)
        self._log.close()

    @property
    def place(self) -> str:
        return f"{self.host.address}:{self.port}"

    def kill_and_start(self) -> None:
        """Kill -9 the running server and start a new one, as a supervisor would."""
        self.wait_until_up()
        self._process.kill()
        assert self._process.wait(timeout=START_SECONDS) == -signal.SIGKILL
        self._process = self._start_process()

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.host.run(self._is_healthy):
                return
            time.sleep(0.05)
        raise AssertionError(f"the server on {self.host.name} did not start: {self.log()}")

    def log(self) -> str:
        return (self._project / "server.log").read_text()

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(self.host.address, self.port, timeout=30)
        try:
            connection.request("GET", "/health", headers=BEARER)
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _start_process(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-P", "-m", "deepwork", "serve", "--path", str(self._project), "--transport", "http",
            "--host", self.host.address, "--port", str(self.port), "--rate-limit", "0",
        ]  # fmt: skip
        return self.host.run(
            lambda: subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log,
                env=self._environment,
            )
        )  # fmt: skip
