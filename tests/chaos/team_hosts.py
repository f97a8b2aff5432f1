"""A database host and two others: network namespaces if permitted, otherwise addresses of this machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

Answer = TypeVar("Answer")

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Host:
    """A simulated machine with its own network."""

    def __init__(self, name: str, address: str, namespace: str | None = None) -> None:
        self.name, self.address, self._namespace = name, address, namespace
        self._reserved: list[socket.socket] = []

    def run(self, work: Callable[[], Answer]) -> Answer:
        """Run a function on the host; processes that it starts stay there."""
        done: list[Answer] = []
        faults: list[BaseException] = []

        def carry_out() -> None:
            try:
                done.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again below
                faults.append(error)

        thread = self.thread(carry_out)
        thread.join()
        if faults:
            raise faults[0]
        return done[0]

    def thread(self, work: Callable[[], Any]) -> threading.Thread:
        """Run a function in a new thread on the host."""

        def move_and_work() -> None:
            if self._namespace is not None:
                _enter(self._namespace)
            work()

        thread = threading.Thread(target=move_and_work, name=f"on-{self.name}", daemon=True)
        thread.start()
        return thread

    def reserve_port(self) -> int:
        """Reserve a port for a server and its restarts.

        The socket stays bound and never listens: a server that sets SO_REUSEADDR can listen there, but the
        kernel assigns the port to no process that asks for a free one and to no outgoing connection.
        """

        def reserve() -> int:
            held = socket.socket()
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((self.address, 0))
            self._reserved.append(held)
            port: int = held.getsockname()[1]
            return port

        return self.run(reserve)

    def close(self) -> None:
        """Release the ports."""
        while self._reserved:
            self._reserved.pop().close()


class Network:
    """A database host and two hosts that can reach it, but not each other."""

    def __init__(self) -> None:
        self._made: list[str] = []
        try:
            self.database, self.left, self.right = self._create_hosts()
            self.is_real = True
        except (OSError, subprocess.CalledProcessError):  # not root, or not supported
            self.close()
            self.database = Host("database", "127.0.0.1")
            self.left, self.right = Host("left", "127.0.0.2"), Host("right", "127.0.0.3")
            self.is_real = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in (self.database, self.left, self.right):
            host.close()
        self.close()

    def close(self) -> None:
        while self._made:
            subprocess.run(["ip", "netns", "delete", self._made.pop()], check=False, capture_output=True)

    def database_address(self, host: Host) -> str:
        """Return the database's address as seen from this host."""
        return f"{host.address.rpartition('.')[0]}.1" if self.is_real else self.database.address

    def cut(self, host: Host, *, is_cut: bool) -> None:
        """Disconnect a host from the database, or reconnect it."""
        _run_ip("-n", self._name("database"), "link", "set", f"to-{host.name}", "down" if is_cut else "up")

    def _create_hosts(self) -> tuple[Host, Host, Host]:
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise PermissionError
        database = self._create_namespace("database", "127.0.0.1")
        return (
            database,
            self._create_connected_host("left", "10.91.1"),
            self._create_connected_host("right", "10.91.2"),
        )

    def _create_namespace(self, name: str, address: str) -> Host:
        full = self._name(name)
        _run_ip("netns", "add", full)
        self._made.append(full)
        _run_ip("-n", full, "link", "set", "lo", "up")
        return Host(name, address, full)

    def _create_connected_host(self, name: str, network: str) -> Host:
        host = self._create_namespace(name, f"{network}.2")
        ours, theirs = self._name("database"), self._name(name)
        _run_ip("-n", ours, "link", "add", f"to-{name}", "type", "veth", "peer", "cable", "netns", theirs)
        for namespace, link, end in ((ours, f"to-{name}", "1"), (theirs, "cable", "2")):
            _run_ip("-n", namespace, "address", "add", f"{network}.{end}/24", "dev", link)
            _run_ip("-n", namespace, "link", "set", link, "up")
        return host

    @staticmethod
    def _name(name: str) -> str:
        return f"deepwork-{os.getpid()}-{name}"


def _run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _enter(namespace: str) -> None:
    """Move this thread into a network namespace; sockets and processes that it creates belong there."""
    with Path("/run/netns", namespace).open("rb") as handle:
        if _libc.setns(handle.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
