"""A model that answers from a script, for the real clients: one HTTP endpoint that speaks four protocols.

    python tests/clients/model_endpoint.py script.json ledger.jsonl      # prints its address

A script is a list of steps, one for each request of the agent's main conversation:

    {"shell": "printf hi > a.txt"}      call the client's shell tool
    {"mcp": "get_workflows", "input": {…}}   call a tool of the MCP server `deepwork`
    {"say": "Done."}                    end the turn with a text
    {"limit": 3600}                     429, with the vendor's way to say that it resets in so many seconds
    {"overloaded": true}                529, or what the vendor calls it
    {"denied": true}                    the key is not accepted
    {"hang": true}                      no answer, until the client or the endpoint goes away

A step may say `"times": 5`, and which tokens it takes: `"usage": {"input": 1000, "cached": 200, "output": 30}`.
`input` does not include `cached`. Requests beside the conversation (titles, probes) offer no tools; they get a short
text. The ledger has a JSON line for each request: what was answered, and the tokens that it cost.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1]))  # when started as a program

from clients.model_protocols import Reply, find_protocol


@dataclass(frozen=True)
class Tokens:
    input: int = 1000
    cached: int = 200
    output: int = 30


ASIDE: dict[str, Any] = {"say": "A small task", "usage": {"input": 40, "cached": 0, "output": 4}}
AFTER_THE_SCRIPT: dict[str, Any] = {"say": "Nothing is left to do."}
FREE = ("limit", "overloaded", "denied", "hang")
"""Steps that cost nothing."""


@dataclass
class Script:
    """The steps that are left; requests take them in turn."""

    steps: list[dict[str, Any]]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take_step(self) -> dict[str, Any]:
        with self._lock:
            if not self.steps:
                return AFTER_THE_SCRIPT
            step = dict(self.steps[0])
            step["times"] = step.get("times", 1) - 1
            self.steps[:1] = [step] if step["times"] > 0 else []
            return step


class Ledger:
    """What each request cost, as JSON lines."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def record(self, **entry: Any) -> None:
        with self._lock, self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")

    def list_entries(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]

    def sum_tokens(self, *, asides: bool = True) -> Tokens:
        """Sum all requests; without asides only those of the agent's main conversation."""
        counted = [entry for entry in self.list_entries() if asides or not entry["aside"]]
        return Tokens(*(sum(entry[name] for entry in counted) for name in ("input", "cached", "output")))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelEndpoint

    def do_HEAD(self) -> None:
        self._send(Reply(200, {}, b""))

    def do_GET(self) -> None:
        """Refuse; 426 makes Codex use HTTP instead of a WebSocket at once."""
        self._send(Reply(426 if self.headers.get("upgrade") else 404, {}, b"{}"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        protocol = find_protocol(self.path)
        if protocol is None:
            self.server.note(self, body)
            self._send(
                Reply(404, {"content-type": "application/json"}, b'{"error": {"message": "unknown path"}}')
            )
            return
        request = json.loads(body)
        aside = not protocol.list_tools(request)
        if not aside:
            self.server.conversations.append(body.decode("utf-8", "replace"))
        step = ASIDE if aside else self.server.script.take_step()
        self.server.note(self, body)
        tokens = Tokens(0, 0, 0) if any(name in step for name in FREE) else Tokens(**step.get("usage", {}))
        self.server.ledger.record(
            protocol=protocol.name, aside=aside, step=_describe(step), model=protocol.find_model(self.path, request),
            **asdict(tokens),
        )  # fmt: skip
        if "hang" in step:
            self.server.wait_for_the_end()
            self.close_connection = True
            return
        self._send(protocol.answer(request, step, asdict(tokens), self.path, self.server.count()))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing; the ledger says what was asked."""

    def _send(self, reply: Reply) -> None:
        try:
            self.send_response(reply.status)
            for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _describe(step: Mapping[str, Any]) -> str:
    return next(name for name in ("shell", "mcp", "say", *FREE) if name in step)


class ModelEndpoint(ThreadingHTTPServer):
    """The endpoint on a free port of this machine; as a context manager it serves in a thread."""

    daemon_threads = True

    def __init__(self, steps: list[dict[str, Any]], ledger: Path, requests: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.ledger = Script(list(steps)), Ledger(ledger)
        self.conversations: list[str] = []
        """The requests of the main conversation, each with all that was said before."""
        self._requests = requests
        self._answers = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def play(self, *steps: dict[str, Any]) -> None:
        """Replace what is left of the script."""
        self.script.steps[:] = steps

    def count(self) -> int:
        """Number the answers, so that each gets an id of its own."""
        with self._lock:
            self._answers += 1
            return self._answers

    def note(self, handler: _Handler, body: bytes) -> None:
        """Keep a request, to see what a client sends."""
        if self._requests:
            with self._requests.open("a", encoding="utf-8") as stream:
                entry = {
                    "path": handler.path,
                    "headers": dict(handler.headers),
                    "body": body.decode("utf-8", "replace"),
                }
                stream.write(json.dumps(entry) + "\n")

    def wait_for_the_end(self) -> None:
        self._ended.wait()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away at any time."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser(description="A model that answers from a script.")
    parser.add_argument("script", type=Path)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--requests", type=Path, help="keep every request in this file")
    chosen = parser.parse_args()
    with ModelEndpoint(json.loads(chosen.script.read_text()), chosen.ledger, chosen.requests) as endpoint:
        print(endpoint.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
