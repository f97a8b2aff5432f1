"""Each tree has a block of ports of its own."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from deepwork.delivery.runner.ports import (
    BLOCK_SIZE,
    FIRST_PORTS,
    PortBlocks,
    PortBlockStore,
    are_free,
    list_candidates,
)
from deepwork.edge.server.application import Application
from deepwork.kernel.config_options import OPTIONS
from deepwork.kernel.errors import NotAllowed


@pytest.fixture
def blocks(app: Application) -> PortBlocks:
    return PortBlocks(app.database, "here")


def make_trees(folder: Path, count: int) -> list[Path]:
    trees = [folder / f"tree-{number}" for number in range(count)]
    for tree in trees:
        tree.mkdir()
    return trees


def test_a_tree_keeps_its_block_and_no_other_tree_gets_it(blocks: PortBlocks, tmp_path: Path):
    trees = make_trees(tmp_path, 3)

    taken = [blocks.take(tree, 3, tmp_path) for tree in trees]

    assert len(set(taken)) == 3
    assert [blocks.take(tree, 3, tmp_path) for tree in trees] == taken
    assert set(taken) <= set(FIRST_PORTS)


@pytest.mark.differs
def test_of_trees_that_ask_at_the_same_time_each_gets_its_own(blocks: PortBlocks, tmp_path: Path):
    trees = make_trees(tmp_path, 4)

    with ThreadPoolExecutor(8) as agents:
        taken = list(agents.map(lambda tree: blocks.take(tree, 2, tmp_path), [*trees, *trees]))

    assert taken[:4] == taken[4:]
    assert len(set(taken)) == 4


def test_a_block_that_a_program_uses_is_skipped(blocks: PortBlocks, tmp_path: Path):
    [tree, other] = make_trees(tmp_path, 2)
    first = blocks.take(tree, 3, tmp_path)
    tree.rmdir()

    with ExitStack() as opened:
        with suppress(OSError):  # another program was first, which is the same here
            opened.enter_context(socket.create_server(("127.0.0.1", first + 2)))

        assert blocks.take(other, 3, tmp_path) != first


def test_a_block_is_free_when_its_tree_is_gone(app: Application, blocks: PortBlocks, tmp_path: Path):
    [gone, other, another] = make_trees(tmp_path, 3)
    freed = blocks.take(gone, 1, tmp_path)
    gone.rmdir()

    blocks.take(other, 1, tmp_path)
    blocks.take(another, 1, tmp_path)

    with app.database.reading() as tx:
        assert set(PortBlockStore(tx).map_trees("here")) == {str(other), str(another)}
        assert PortBlockStore(tx).find("here", str(gone)) is None
    assert freed in FIRST_PORTS


def test_another_machine_has_blocks_of_its_own(app: Application):
    with app.database.transaction() as tx:
        store = PortBlockStore(tx)

        assert store.take("here", FIRST_PORTS[0], "/t")
        assert not store.take("here", FIRST_PORTS[0], "/other")
        assert not store.take("here", FIRST_PORTS[1], "/t")
        assert store.take("there", FIRST_PORTS[0], "/t")


def test_with_all_blocks_taken_the_error_says_what_to_do(
    app: Application, blocks: PortBlocks, tmp_path: Path
):
    with app.database.transaction() as tx:
        for number, first in enumerate(FIRST_PORTS):
            PortBlockStore(tx).take("here", first, f"{tmp_path}/../{tmp_path.name}/{'./' * number}")

    with pytest.raises(NotAllowed, match=r"All \d+ blocks of ports .* are in use") as refused:
        blocks.take(make_trees(tmp_path, 1)[0], 1, tmp_path)
    assert "workspace.ports" in refused.value.suggestion


def test_blocks_do_not_overlap_whatever_a_project_asks_for():
    [ports] = [option for option in OPTIONS if option.name == "workspace_ports"]

    assert ports.parse(BLOCK_SIZE) == BLOCK_SIZE
    with pytest.raises(ValueError, match=r"^$"):
        ports.parse(BLOCK_SIZE + 1)
    assert set(list_candidates("/any/project")) == set(FIRST_PORTS)
    assert max(FIRST_PORTS) + BLOCK_SIZE <= 32_768


def test_a_port_with_a_listener_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert not are_free([port])
