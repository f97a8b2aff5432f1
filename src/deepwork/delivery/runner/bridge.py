"""The MCP server that an agent gets: it passes messages between standard streams and the runner's socket.

It knows neither the store nor its address. Its only argument is a file of the attempt with the path of the
socket and the token. The file is read again for each connection, because another runner may have taken over.
While no runner answers, a request waits for a while, then gets an error; the next one tries again. A request
whose answer was lost with its connection is repeated: calls carry an idempotency key, so none acts twice.

This file runs as a script, isolated and without site packages, so it imports only the standard library.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WAIT_SECONDS = 20.0
"""How long a request waits for a runner; clients wait longer."""
_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 0.5
_KEY = "deepwork/idempotency-key"
_CHUNK = 64 * 1024
_OWN_ID = "deepwork-bridge"
"""The id of an `initialize` that is repeated after a reconnection, and whose answer is ours."""
_MAX_ANSWER = 64 * 1024
MAX_PENDING = 500
"""How many requests may wait for their answers; a server hangs up on a client that has twice as many."""


class TokenRefused(Exception):
    """The server does not accept the token; its error is the argument."""


class Lines:
    """Puts together the lines that arrive in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, received: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        if b"\n" not in received:
            self._rest += received
            return []
        *lines, rest = (bytes(self._rest) + received).split(b"\n")
        self._rest = bytearray(rest)
        return [line for line in lines if line.strip()]


class Bridge:
    """One client on standard streams, and one connection after another to whoever looks after the attempt."""

    def __init__(self, file: str, input: int, output: int) -> None:
        self._file, self._input, self._output = file, input, output
        self._socket: socket.socket | None = None
        self._received, self._answers = Lines(), Lines()
        self._beginning: list[bytes] = []
        """What a connection begins with: `initialize`, then its notification."""
        self._pending: dict[str, bytes] = {}
        """Requests without an answer, by their ids as JSON, in order."""
        self._calls = 0
        self._name = f"bridge-{os.urandom(8).hex()}"
        self._has_input = True

    def run(self) -> None:
        """Pass messages on until the client has closed its end, and everything is answered."""
        while self._has_input or (self._pending and not self._is_client_gone()):
            sources: list[Any] = [self._input] if self._has_input else []
            sources += [self._socket] if self._socket is not None else []
            ready, _, _ = select.select(sources, [], [], None if self._has_input else _LOOK_SECONDS)
            if self._socket is not None and self._socket in ready:
                self._read_answers()
            if self._input in ready:
                self._read_input()
        self._disconnect()

    def _is_client_gone(self) -> bool:
        """Whether nobody can read answers any more; the server learns it by the end of the connection."""
        hang_up = select.poll()
        hang_up.register(self._output, 0)
        return bool(hang_up.poll(0))

    def _read_input(self) -> None:
        received = os.read(self._input, _CHUNK)
        if not received:
            self._has_input = False
            return
        for line in self._received.add(received):
            self._forward(line)

    def _forward(self, line: bytes) -> None:
        message = parse(line)
        if is_request(message):
            if len(self._pending) >= MAX_PENDING:
                self._write(build_error(message, _TOO_MANY))
                return
            line = self._prepare(message, line)
        elif message.get("method") == "notifications/initialized":
            self._beginning = [*self._beginning[:1], line]
        elif message.get("method") == "notifications/cancelled":
            self._forget(message.get("params"))
        if self._socket is None:
            self._reconnect(is_new=line)
            return
        self._send(line)

    def _prepare(self, message: dict[str, Any], line: bytes) -> bytes:
        """Remember a request until it is answered; a call gets the key with which it can be repeated."""
        if message["method"] == "initialize":
            self._beginning = [line]
        if message["method"] == "tools/call":
            line = self._add_key(message) or line
        self._pending[json.dumps(message["id"])] = line
        return line

    def _forget(self, params: object) -> None:
        """Forget a request that the client cancelled: it gets no answer."""
        if isinstance(params, dict):
            self._pending.pop(json.dumps(params.get("requestId")), None)

    def _add_key(self, message: dict[str, Any]) -> bytes | None:
        params = message.get("params")
        if not isinstance(params, dict):
            return None
        meta = params.setdefault("_meta", {})
        if not isinstance(meta, dict) or _KEY in meta:
            return None
        self._calls += 1
        meta[_KEY] = f"{self._name}-{self._calls}"
        return json.dumps(message).encode()

    def _send(self, line: bytes) -> None:
        try:
            if self._socket is not None:
                self._socket.sendall(line + b"\n")
        except OSError:
            self._reconnect()

    def _read_answers(self) -> None:
        try:
            received = self._socket.recv(_CHUNK) if self._socket is not None else b""
        except OSError:
            received = b""
        if not received:
            self._disconnect()
            if self._pending:
                self._reconnect()
            return
        for line in self._answers.add(received):
            self._pass_back(line)

    def _pass_back(self, line: bytes) -> None:
        message = parse(line)
        if "id" in message and "method" not in message:
            if message["id"] == _OWN_ID:
                return
            self._pending.pop(json.dumps(message["id"]), None)
        self._write(line)

    def _write(self, line: bytes) -> None:
        rest = line + b"\n"
        while rest:
            rest = rest[os.write(self._output, rest) :]

    # Connections

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._answers = None, Lines()

    def _reconnect(self, is_new: bytes | None = None) -> None:
        """Connect and send again what has no answer; answer it with an error if nobody is there."""
        self._disconnect()
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self._socket = connect(self._file)
                for line in self._list_lines(is_new):
                    self._socket.sendall(line + b"\n")
            except TokenRefused as refusal:
                if not is_worth_repeating(refusal.args[0]) or time.monotonic() > deadline:
                    self._give_up(refusal.args[0])
                    return
                time.sleep(_PAUSE_SECONDS)
            except (OSError, ValueError, KeyError):
                self._disconnect()
                if time.monotonic() > deadline:
                    self._give_up(_NOBODY)
                    return
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _list_lines(self, is_new: bytes | None) -> list[bytes]:
        """List what a new connection gets: its beginning, unless that has no answer yet, and the rest."""
        pending = list(self._pending.values())
        beginning = [line for line in self._beginning if line not in pending and line != is_new]
        lines = [_with_own_id(line) for line in beginning] + pending
        return [*lines, is_new] if is_new is not None and is_new not in lines else lines

    def _give_up(self, error: dict[str, Any]) -> None:
        self._disconnect()
        for line in self._pending.values():
            self._write(build_error(parse(line), error))
        self._pending.clear()


_NOBODY = {
    "code": "STORAGE_ERROR",
    "message": "No runner looks after this attempt at the moment, so deepwork cannot answer.",
    "recoverable": True,
    "suggestion": "Go on with your work and call again later; what you write in your folder is kept.",
}


_TOO_MANY = {
    "code": "INVALID_STATE",
    "message": f"{MAX_PENDING} requests have no answer yet.",
    "recoverable": True,
    "suggestion": "Wait for answers, then call again.",
}


def connect(file: str) -> socket.socket:
    """Connect to whoever looks after the attempt, and present the token."""
    with open(file, "rb") as content:  # noqa: PTH123 (fast start)
        found = json.load(content)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(WAIT_SECONDS)
        connection.connect(found["socket"])
        connection.sendall(json.dumps({"token": found["token"]}).encode() + b"\n")
        _require_accepted(json.loads(_read_line(connection)))
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def is_worth_repeating(error: object) -> bool:
    """Whether the server may accept the token in a moment, or has put another one into the file."""
    return isinstance(error, dict) and error.get("recoverable") is True


def _require_accepted(answer: dict[str, Any]) -> None:
    if "error" in answer:
        raise TokenRefused(answer["error"])


def _read_line(connection: socket.socket) -> bytes:
    """Read one line and nothing after it: the server sends no more before it is asked."""
    line = b""
    while not line.endswith(b"\n"):
        received = connection.recv(_MAX_ANSWER)
        if not received or len(line) > _MAX_ANSWER:
            raise ConnectionResetError
        line += received
    return line


def parse(line: bytes) -> dict[str, Any]:
    """Parse a message; empty if it is none, which the server will say."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def is_request(message: dict[str, Any]) -> bool:
    """Whether the message wants an answer."""
    return isinstance(message.get("method"), str) and isinstance(message.get("id"), str | int)


def build_error(request: dict[str, Any], error: dict[str, Any]) -> bytes:
    """Build the answer to a request that nobody else can answer, in the form of the server."""
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(error)}], "isError": True}
    else:
        answer["error"] = {"code": -32603, "message": error["message"], "data": error}
    return json.dumps(answer).encode()


def _with_own_id(line: bytes) -> bytes:
    message = parse(line)
    return json.dumps({**message, "id": _OWN_ID}).encode() if "id" in message else line


def main(arguments: list[str]) -> None:
    """Pass messages on between our standard streams and the socket that the file names."""
    if len(arguments) != 1:
        sys.stderr.write("Usage: deepwork bridge FILE; agents get the file as $DEEPWORK_BRIDGE.\n")
        sys.exit(2)
    try:
        Bridge(arguments[0], 0, 1).run()
    except (BrokenPipeError, KeyboardInterrupt):  # the client is gone
        return


if __name__ == "__main__":
    main(sys.argv[1:])
