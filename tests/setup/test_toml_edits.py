"""Edits of TOML add, change and remove one table and keep all other text."""

from __future__ import annotations

import random

import pytest

from deepwork.views.setup.jsonc import UnreadableText
from deepwork.views.setup.toml_edits import find_table, insert, parse, remove, update

PATH = ("mcp_servers", "deepwork")
ENTRY = {"command": "deepwork", "args": ["serve", "--path", "."], "env": {"DEEPWORK_SETUP": "entry"}}

_PIECES = [
    "# a remark\n", "\n", 'model = "o5"\n', "[projects.\"/home/a b\"]\ntrust_level = 'trusted'\n", "[mcp_servers.mine]\ncommand = 'x'\n",
    'text = """\n[mcp_servers.deepwork]\n# not a table\n"""\n', "lines = '''\n[x]'''\n", "list = [\n  1, # one\n  [2],\n]\n",
    "[[profiles]]\nname = 'a'\n", "[[profiles]]\n  name = 'b' # odd\n", 'inline = { a = "[", b = [1, 2] }\n', "  [spaced . name]  # here\n  a.b = 1\n",
    "[mcp_servers.\"deep.work\"]\nurl = 'http://x'\n", "date = 2026-01-02T03:04:05Z\n", 'quoted = "a \\" # b"\n',
]  # fmt: skip


@pytest.fixture(scope="module")
def files() -> list[str]:
    """Files that can be edited, drawn from all kinds of lines."""
    chance = random.Random(4)
    made = ["", "\n", "# only a remark", 'model = "x"', "[a]"]
    while len(made) < 400:
        text = "".join(chance.sample(_PIECES, chance.randint(1, 7)))
        text = text.replace("\n", "\r\n") if chance.random() < 0.2 else text
        text = text.rstrip("\r\n") if chance.random() < 0.3 else text
        try:
            remove(insert(text, PATH, ENTRY), PATH)
        except UnreadableText:
            continue
        made.append(text)
    return made


def test_inserting_and_removing_a_table_leaves_other_text_unchanged(files: list[str]):
    for text in files:
        new = insert(text, PATH, ENTRY)

        assert new.startswith(text)
        assert find_table(parse(new), PATH) == ENTRY
        assert remove(new, PATH).rstrip() == text.rstrip(), repr(text)


def test_updating_and_removing_a_table_leaves_the_following_text_unchanged(files: list[str]):
    for text in files:
        middle = insert(text if text.endswith("\n") or not text else text + "\n", PATH, ENTRY)
        whole = middle + "\n# about the next\n[zzz]\nlast = true\n"

        updated = update(whole, PATH, {"args": ["serve"], "command": "/x/deepwork"})
        left = remove(whole, PATH)

        assert find_table(parse(updated), PATH) == {**ENTRY, "args": ["serve"], "command": "/x/deepwork"}
        assert updated.endswith("\n# about the next\n[zzz]\nlast = true\n")
        assert left.endswith("# about the next\n[zzz]\nlast = true\n")
        assert updated.startswith(text)
        assert left.startswith(text)
        assert find_table(parse(left), PATH) is None


def test_updating_our_table_keeps_keys_that_the_user_added():
    text = (
        insert("", PATH, ENTRY)
        + "startup_timeout_sec = 30 # slow disk\n\n[mcp_servers.deepwork.tools.x]\napproval_mode = 'approve'\n"
    )

    new = update(text, PATH, {**ENTRY, "args": ["serve", "--path", "/p"]})

    assert new == text.replace('["serve", "--path", "."]', '["serve", "--path", "/p"]')


def test_removing_our_table_also_removes_its_subtables():
    text = (
        insert("a = 1\n", PATH, ENTRY)
        + "\n[mcp_servers.deepwork.tools.x]\napproval_mode = 'approve'\n\n[b]\n"
    )

    assert remove(text, PATH) == "a = 1\n\n[b]\n"


def test_removing_a_table_also_removes_distant_subtables_and_keeps_comments():
    text = (
        insert("a = 1\n", PATH, ENTRY)
        + "# about b\n[b]\nc = 1\n[[mcp_servers.deepwork.hooks]]\nx = 1\n# about d\n[d]\n"
    )

    assert remove(text, PATH) == "a = 1\n\n# about b\n[b]\nc = 1\n# about d\n[d]\n"


def test_a_table_with_a_separate_env_table_can_be_updated():
    text = '[mcp_servers.deepwork]\ncommand = "old"\nargs = []\n\n[mcp_servers.deepwork.env]\nDEEPWORK_SETUP = "entry"\nMINE = "1"\n'

    new = update(text, PATH, {"command": "deepwork", "args": ["serve"]})

    assert new == text.replace('"old"', '"deepwork"').replace("args = []", 'args = ["serve"]')


@pytest.mark.parametrize(
    "text", ['mcp_servers = { mine = { command = "x" } }\n', "[[mcp_servers]]\na = 1\n", "mcp_servers = 3\n"]
)
def test_inserting_into_a_section_that_is_not_a_table_is_refused(text: str):
    with pytest.raises(UnreadableText, match=r"not written as a separate table \[mcp_servers.deepwork\]"):
        insert(text, PATH, ENTRY)


@pytest.mark.parametrize(
    "text", ["[mcp_servers]\ndeepwork = { command = 'x' }\n", "mcp_servers.deepwork.command = 'x'\n"]
)
def test_removing_an_entry_that_is_not_a_separate_table_is_refused(text: str):
    with pytest.raises(UnreadableText, match="not written as a separate table"):
        remove(text, PATH)


@pytest.mark.parametrize(
    "text", ["a = 1\n[b.c]\n[[d]]\n[b.e]\n", "[mcp_servers.mine]\ncommand = 'x'\n[[c]]\nd = 1\n"]
)
def test_a_file_that_would_be_reordered_is_refused(text: str):
    with pytest.raises(UnreadableText, match="between tables that belong together") as error:
        remove(insert(text, PATH, ENTRY), PATH)

    assert error.value.line == 3


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = \n", 2), ("\n\n[a\n", 3), ("a = 1\na = 2\n", 2), ("x = '''\n", 1)]
)
def test_invalid_toml_is_reported_with_its_line(text: str, line: int):
    with pytest.raises(UnreadableText) as error:
        parse(text)

    assert error.value.line == line


@pytest.mark.parametrize("value", ['a"b', "tab\t", "\x7f", "\x01", "é", "back\\slash", "line\nline"])
def test_any_text_is_written_so_that_it_reads_back_unchanged(value: str):
    assert find_table(parse(insert("", PATH, {"command": value})), PATH) == {"command": value}
