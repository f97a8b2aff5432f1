"""Blocks of ports, one for each tree, so that servers of parallel agents do not meet."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed

BLOCK_SIZE: Final = 32
"""How far blocks are apart, and so the most ports that a tree has; `workspace.ports` has the same limit."""
_FIRST_PORT = 20_000
_END_PORT = 32_768  # from here on systems choose ports for outgoing connections
FIRST_PORTS: Final = range(_FIRST_PORT, _END_PORT - BLOCK_SIZE + 1, BLOCK_SIZE)
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class PortBlockStore:
    """Reads and writes which tree has which block."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find(self, host: str, tree: str) -> int | None:
        """Return the first port of a tree."""
        sql = "SELECT first_port FROM port_blocks WHERE host = :host AND tree = :tree"
        row = self._tx.fetch_one(sql, host=host, tree=tree)
        return row["first_port"] if row else None

    def map_trees(self, host: str) -> dict[str, int]:
        """Return the first ports of all trees of a machine, by their paths."""
        sql = "SELECT tree, first_port FROM port_blocks WHERE host = :host"
        return {row["tree"]: row["first_port"] for row in self._tx.fetch_all(sql, host=host)}

    def take(self, host: str, first_port: int, tree: str) -> bool:
        """Give a block to a tree; False if the block is taken, or if the tree has one."""
        row = {"host": host, "first_port": first_port, "tree": tree, "taken_at": self._tx.now}
        return self._tx.insert_new("port_blocks", row)

    def release(self, host: str, trees: Iterable[str]) -> None:
        """Let others have the blocks of these trees."""
        for tree in trees:
            self._tx.execute(
                "DELETE FROM port_blocks WHERE host = :host AND tree = :tree", host=host, tree=tree
            )


class PortBlocks:
    """Gives blocks of this machine to trees; blocks of trees that are gone are free again."""

    def __init__(self, database: Database, host: str) -> None:
        self._database, self._host = database, host

    def take(self, tree: Path, ports: int, near: Path) -> int:
        """Return the first port of the tree's block: the one that it has, or a free one.

        `near` is the project: its trees have neighbouring blocks, away from those of other stores.
        """
        with self._database.reading() as tx:
            taken = PortBlockStore(tx).map_trees(self._host)
        if str(tree) in taken:
            return taken[str(tree)]
        self._release([path for path in taken if not Path(path).is_dir()])
        used = {first for path, first in taken.items() if Path(path).is_dir()}
        for first in list_candidates(str(near)):
            if first not in used and are_free(range(first, first + ports)):
                if self._try_to_take(first, tree):
                    return first
                if (own := self._find(tree)) is not None:
                    return own
        raise NotAllowed(
            f"All {len(FIRST_PORTS)} blocks of ports from {_FIRST_PORT} to {_END_PORT - 1} are in use.",
            suggestion="End workspaces that nobody needs, or set workspace.ports to 0 in config.yml.",
        )

    def _find(self, tree: Path) -> int | None:
        with self._database.reading() as tx:
            return PortBlockStore(tx).find(self._host, str(tree))

    def _try_to_take(self, first: int, tree: Path) -> bool:
        with self._database.transaction() as tx:
            return PortBlockStore(tx).take(self._host, first, str(tree))

    def _release(self, trees: list[str]) -> None:
        if trees:
            with self._database.transaction() as tx:
                PortBlockStore(tx).release(self._host, trees)


def list_candidates(project: str) -> Iterator[int]:
    """List all blocks, from one on that depends on the project."""
    start = int.from_bytes(sha256(project.encode(errors="surrogateescape")).digest()[:8]) % len(FIRST_PORTS)
    yield from FIRST_PORTS[start:]
    yield from FIRST_PORTS[:start]


def are_free(ports: Iterable[int]) -> bool:
    """Return whether no program of this machine uses one of these ports."""
    return not any(_is_used(family, address, port) for port in ports for family, address in _LOOPBACK)


def _is_used(family: socket.AddressFamily, address: str, port: int) -> bool:
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:  # there may be no IPv6
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
