"""A client that starts a server, asks it for a review and waits; a test kills it.

Arguments: the project, then the command of the server. Prints the server's process id when it has asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def main() -> None:
    project, *command = sys.argv[1:]
    words = [*command, "serve", "--path", project, "--external-runner", "claude"]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None

    def send(id: int, method: str, params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        server.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]

    send(1, "initialize", INITIALIZE)
    server.stdout.readline()
    start = {"goal": "x", "job_name": "one", "workflow_name": "main"}
    send(2, "tools/call", {"name": "start_workflow", "arguments": start})
    server.stdout.readline()
    send(3, "tools/call", {"name": "finished_step", "arguments": {"outputs": {"a.md": "a.md"}}})
    print(server.pid, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
