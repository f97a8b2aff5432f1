"""The fork server: imports everything that commands need, then forks for each client until the worker ends."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector, SelectorKey

from click import Context

from deepwork.edge.cli.main import COMMANDS
from deepwork.edge.cli.main import deepwork as every_command
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.config import load_settings


def main(address: str) -> None:
    _import_all()
    _coarsen_clocks()
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    waiting = DefaultSelector()
    waiting.register(listener, EVENT_READ)
    waiting.register(sys.stdin, EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                _begin(waiting, listener)
            elif key.fileobj is sys.stdin:
                return
            elif isinstance(key.fileobj, socket.socket):  # the client was killed
                if key.fileobj.fileno() < 0:  # and the command has already ended, which was handled
                    continue
                os.kill(key.data, signal.SIGKILL)
                waiting.unregister(key.fileobj)
            else:
                _end(waiting, key)


def _begin(waiting: DefaultSelector, listener: socket.socket) -> None:
    line, _ = listener.accept()
    size, files, _, _ = socket.recv_fds(line, 4, 3)
    asked, missing = b"", int.from_bytes(size, "big")
    while missing > 0 and (piece := line.recv(65536)):
        asked, missing = asked + piece, missing - len(piece)
    if not asked or missing:  # the client was killed before it had sent its request
        for file in files:
            os.close(file)
        line.close()
        return
    pid = os.fork()
    if pid == 0:
        _become(files, asked)
    for file in files:
        os.close(file)
    with suppress(OSError):  # the client was killed; the selector will report that
        line.sendall(pid.to_bytes(4, "big"))
    waiting.register(line, EVENT_READ, data=pid)
    waiting.register(os.pidfd_open(pid), EVENT_READ, data=(pid, line))


def _end(waiting: DefaultSelector, key: SelectorKey) -> None:
    pid, line = key.data
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    waiting.unregister(key.fd)
    os.close(key.fd)
    with suppress(KeyError):
        waiting.unregister(line)
    with suppress(OSError):  # the client may have ended
        line.sendall(ended.to_bytes(4, "big", signed=True))
    line.close()


def _become(files: list[int], asked: bytes) -> None:
    """Run the command in the forked process, without the fork server's open files."""
    code = 1
    try:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 4096)
        folder, count, *words = asked.split(b"\0")
        arguments, variables = words[: int(count)], words[int(count) :]
        os.chdir(folder)
        os.environ.clear()
        for variable in variables:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        sys.argv = ["deepwork", *map(os.fsdecode, arguments)]
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        from deepwork.__main__ import main as run_command

        run_command()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 as Python itself would print it
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def _import_all() -> None:
    """Import everything that commands need, without opening a store."""
    for name in (
        "psycopg",
        "uvicorn",
        "deepwork.edge.server.http.serving",
        "deepwork.kernel.protocol.transports.stdio",
    ):
        import_module(name)
    for name in COMMANDS:
        every_command.get_command(Context(every_command), name)
    with tempfile.TemporaryDirectory() as folder:
        McpService(Application(load_settings(Path(folder), {"toolsets": ("all",)}, environment={})))


def _coarsen_clocks() -> None:
    """Import `clocks` from tests/, and remove tests/ from the path again: commands must not see it."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import_module("clocks").coarsen_clocks()
    del sys.path[0]


if __name__ == "__main__":
    main(sys.argv[1])
