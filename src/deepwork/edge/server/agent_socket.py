"""A private socket at which agents of runs are answered.

On the socket, a line of JSON with the `token` comes first. The server accepts it with a line that names
the attempt, and the connection then carries MCP as standard streams do; or it sends an `error` and hangs
up. If the first line has a `hook`, too, it is the event of a client's hook, and the next line is its
answer.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepwork.delivery.runner.agent_access import AgentAccess, AgentToken, Grant
from deepwork.edge.server.agent_rules import AgentService
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import get_runtime_folder
from deepwork.kernel.errors import Code, DeepworkError, NotAllowed, StorageError
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.transports.stdio import (
    RequestReader,
    ResponseWriter,
    SessionLimits,
    StdioSession,
    TooManyRequests,
    serve_lines,
)
from deepwork.kernel.supervision.supervisor import hide_process
from deepwork.views.hooks.server_socket import find_peer, require_own_peer, require_private_folder

MAX_PATH_BYTES = 103
"""What fits on every system: macOS has room for 104 bytes with the end, Linux for 108."""
_PREFIX = "agents-"
_BACKLOG = 128


def open_new_socket() -> tuple[socket.socket, Path]:
    """Listen at a new path in this user's runtime folder, or in /tmp where that cannot be used."""
    name = f"{_PREFIX}{os.getpid()}-{os.urandom(3).hex()}"
    usual, other = get_runtime_folder() / name, get_runtime_folder({}) / name
    try:
        return open_socket(usual), usual
    except NotAllowed:  # its path is too long, or it is the folder of another user
        return open_socket(other), other


def open_socket(path: Path) -> socket.socket:
    """Listen at this path; a socket that nobody listens at any more is replaced, anything else is refused."""
    path = path.absolute()
    if not _fits(path):
        raise NotAllowed(
            f"The path of the socket has {len(os.fsencode(path))} bytes; {MAX_PATH_BYTES} are possible.",
            suggestion=f"Choose a shorter one, such as {get_runtime_folder({}) / 'agents'}.",
        )
    try:
        with _hold_folder(path.parent):
            _remove_stale(path)
            return _listen(path)
    except OSError as error:
        raise NotAllowed(
            f"Cannot listen at {path}: {error.strerror or 'its folder is a link, or others may use it'}.",
            suggestion="Use a folder that belongs to you alone (chmod 700), and a name that is free.",
        ) from error


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_PATH_BYTES


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time make or remove sockets in a private folder, which is made if need be."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _remove_stale(path: Path) -> None:
    """Remove what killed processes left: the socket at this path, and those of runners beside it."""
    others = path.parent.glob(f"{_PREFIX}*-*") if path.name.startswith(_PREFIX) else ()
    for each in {path, *others}:
        with suppress(FileNotFoundError):
            if _is_stale(each):
                each.unlink()


def _is_stale(path: Path) -> bool:
    """Whether this is a socket of this user at which nobody listens."""
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1)
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


log = logging.getLogger("deepwork")

FIRST_LINE_SECONDS = 10.0
GRACE_SECONDS = 3.0
"""How long requests may take that are being answered when the server closes; later ones are cancelled."""
_CANCELLED_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})
"""What the system says while it has no room for another connection; others may end meanwhile."""
_MAX_SILENT = 256
"""How many connections may not have said who they are; the oldest gives way to a new one."""
_MAX_OF_ATTEMPT = 16
"""How many connections an agent may have: its bridge, its hooks, and those of agents that it started."""
_LIMITS = SessionLimits(threads=4, requests=1000)
"""For each connection: an agent that calls all the time must leave room for the others."""


def build_door(app: Application) -> AgentServer | OtherServer:
    """Return what answers the agents of a runner: this process, or the server that the settings name."""
    path = app.settings.socket
    return OtherServer(Path(path).absolute()) if path else AgentServer(app)


def serve_socket(app: Application, path: Path) -> None:
    """Answer agents at this path until a signal arrives."""
    hide_process()  # from the agents
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = AgentServer(app, path.absolute())
    log.info("Agents of runs are answered at %s", server.open())
    try:
        stop.wait()
    finally:
        server.close()


class OtherServer:
    """A server of another process, which a person started with `deepwork serve --socket`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> Path:
        """Return the path of its socket."""
        return self._path

    def close(self) -> None:
        """Do nothing: it goes on."""


class AgentServer:
    """Listens for the agents of a project's runs, in threads of its own."""

    def __init__(self, app: Application, path: Path | None = None) -> None:
        """`path` is where it listens; by default a new name in this user's runtime folder."""
        self._app, self._path = app, path
        self._access = AgentAccess(app.database)
        self._starting = threading.Lock()
        self._socket: socket.socket | None = None
        self._stop_reading, self._stop_writing = -1, -1
        self._connections = Connections()
        self._sessions: set[StdioSession] = set()

    def open(self) -> Path:
        """Listen from now on, if that was not begun before; return the path of the socket."""
        with self._starting:
            if self._socket is None:
                known = self._path
                self._socket, self._path = (open_socket(known), known) if known else open_new_socket()
                self._stop_reading, self._stop_writing = os.pipe()
                threading.Thread(
                    target=self._accept, args=(self._socket,), name="deepwork-agents", daemon=True
                ).start()
            assert self._path is not None
            return self._path

    def close(self) -> None:
        """Stop listening; requests that were received are answered."""
        if self._socket is None or self._path is None:
            return
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        os.close(self._stop_writing)
        self._join(GRACE_SECONDS)
        for session in list(self._sessions):  # its client repeats what was not answered
            session.cancel_all()
        self._connections.hang_up()  # wakes those that wait for a client that reads nothing
        self._join(_CANCELLED_SECONDS)
        os.close(self._stop_reading)
        self._socket = None

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._connections.list_threads():
            thread.join(max(0, deadline - time.monotonic()))

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError as error:
                if error.errno not in _USED_UP:  # closed
                    return
                time.sleep(_PAUSE_SECONDS)
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="deepwork-agent", daemon=True
            )
            self._connections.add(connection, thread)
            try:
                thread.start()
            except RuntimeError:  # the user has too many processes; its agents may have started them
                self._connections.remove(connection)
                connection.close()  # a bridge tries again
                time.sleep(_PAUSE_SECONDS)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._answer(connection)
                _hang_up(connection)  # wakes the thread that waits for that
        except OSError as error:
            log.info("The connection of an agent ended: %s", error)
        except Exception:
            log.exception("The connection of an agent failed")
        finally:
            self._connections.remove(connection)

    def _answer(self, connection: socket.socket) -> None:
        require_own_peer(connection)
        lines = RequestReader(connection.fileno(), self._stop_reading).read_lines()
        first = self._read_first(connection, lines)
        if first is None:
            return
        token = first.get("token")
        try:
            grant = self._access.find_grant(token, find_peer(connection))
            self._connections.assign(connection, grant.attempt_id)
        except DeepworkError as error:
            _send(connection, {"error": error.to_dict()})
            return
        if isinstance(event := first.get("hook"), dict):
            _send(connection, {"text": self._answer_hook(grant, event)})
            return
        _send(connection, {"attempt": grant.attempt_id})
        service = AgentService(self._build_app(grant), grant, AgentToken(self._access, str(token)))
        session = StdioSession(MessageHandler(service), ResponseWriter(connection.fileno()), _LIMITS)
        self._sessions.add(session)
        try:
            serve_lines(session, self._list_while_valid(lines, str(token)), connection.fileno())
        except TooManyRequests:
            log.warning("The agent of %s sent too many requests at once", grant.attempt_id)
            _hang_up(connection)
            session.cancel_all()
            session.finish()
        finally:
            self._sessions.discard(session)

    def _list_while_valid(self, lines: Iterator[bytes], token: str) -> Iterator[bytes]:
        """List lines until the token ends: a bridge then connects again, with the token that its file has."""
        for line in lines:
            try:
                self._access.find_grant(token)
            except NotAllowed:
                return
            except StorageError:  # the call itself will say so
                pass
            yield line

    def _read_first(self, connection: socket.socket, lines: Iterator[bytes]) -> dict[str, Any] | None:
        """Return what a connection begins with; None if it says nothing in time, or something else."""
        timer = threading.Timer(FIRST_LINE_SECONDS, _end_reading, [connection])
        timer.daemon = True
        timer.start()
        try:
            first = json.loads(next(lines, b"null"))
        except (ValueError, RecursionError):
            return None
        finally:
            timer.cancel()
        return first if isinstance(first, dict) else None

    def _build_app(self, grant: Grant) -> Application:
        """Build the application that serves an agent: its project, its name, and the store of this one."""
        settings = self._app.settings
        folder = settings.repository_root if grant.workflow_id is not None else grant.tree
        settings = replace(settings, project_root=folder)
        return Application(settings, shared_database=self._app.database)

    def _answer_hook(self, grant: Grant, event: Mapping[str, Any]) -> str:
        from deepwork.views.hooks.agent_hooks import answer_agent_hook  # noqa: PLC0415 - few clients have hooks

        return answer_agent_hook(self._app.settings, event, grant)


class Connections:
    """The open connections of a server, none of which keeps others from connecting."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._silent: dict[socket.socket, threading.Thread] = {}
        """Those that have not shown a token, the oldest first."""
        self._known: dict[socket.socket, tuple[threading.Thread, str]] = {}
        """Those of agents, with their attempts."""

    def add(self, connection: socket.socket, thread: threading.Thread) -> None:
        """Add a new connection; the oldest silent one is ended if there are too many."""
        with self._changing:
            self._silent[connection] = thread
            if len(self._silent) > _MAX_SILENT:
                oldest = next(iter(self._silent))
                del self._silent[oldest]
                _hang_up(oldest)

    def assign(self, connection: socket.socket, attempt_id: str) -> None:
        """Note whose connection it is; raises NotAllowed if its agent has too many."""
        with self._changing:
            if sum(each == attempt_id for _, each in self._known.values()) >= _MAX_OF_ATTEMPT:
                raise NotAllowed(
                    f"This agent has {_MAX_OF_ATTEMPT} connections already.",
                    code=Code.UNAUTHORIZED,
                    recoverable=True,
                    suggestion="End some of the programs that you started with $DEEPWORK_BRIDGE.",
                )
            if (thread := self._silent.pop(connection, None)) is not None:
                self._known[connection] = thread, attempt_id

    def remove(self, connection: socket.socket) -> None:
        """Remove a connection that has ended."""
        with self._changing:
            self._silent.pop(connection, None)
            self._known.pop(connection, None)

    def list_threads(self) -> list[threading.Thread]:
        """List the threads of all connections."""
        with self._changing:
            return [*self._silent.values(), *(thread for thread, _ in self._known.values())]

    def hang_up(self) -> None:
        """End all connections."""
        with self._changing:
            for connection in [*self._silent, *self._known]:
                _hang_up(connection)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # closed meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _end_reading(connection: socket.socket) -> None:
    with suppress(OSError):  # closed meanwhile
        connection.shutdown(socket.SHUT_RD)


def _send(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")
