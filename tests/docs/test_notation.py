"""The notation of the pages: which outputs count as equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.pages import Block, FenceError, parse_blocks, parse_steps

from docs.page_output import PageIds
from docs.terminal import Terminal, is_running


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("rows  2", "rows 2\n"),
        ("at 2026-11-16T09:12:00.000Z", "at 2031-01-02T03:04:05.678Z"),
        ('"created_at": 1794824437006', '"created_at": 1800000000000'),
        ("deepwork, version 0.1.0", "deepwork, version 12.0.3"),
        ("token dw_3k9x…", "token dw_abc-def_ghi"),
        ("first\n…", "first\nsecond\nthird"),
        ("first\n…\nlast", "first\nlast"),
        ("took … seconds", "took 5 seconds"),
    ],
)
def test_values_that_differ_between_runs_count_as_equal(shown: str, printed: str):
    assert PageIds().match_output(shown, printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("rows  2", "rows  3"),
        ("rows  2", "rows  2\nmore"),
        ("rows  2\nmore", "rows  2"),
        ("id wf_n1un6fdh59ym", "id tk_n1un6fdh59ym"),
        ("at 2026-11-16T09:12:00.000Z", "at noon"),
        ("first\n…\nlast", "first\nsecond"),
        ("from wf_1a to wf_1a", "from wf_aaaaaaaaaaaa to wf_bbbbbbbbbbbb"),
    ],
)
def test_differences_are_reported(shown: str, printed: str):
    assert PageIds().match_output(shown, printed).startswith("--- shown")


def test_an_id_means_the_same_on_the_whole_page():
    names = PageIds()
    names.match_output("id wf_n1un6fdh59ym\nsession k3x9w2ab", "id wf_aaaaaaaaaaaa\nsession qqqqqqqq")

    assert (
        names.substitute_ids("show wf_n1un6fdh59ym k3x9w2ab is_stale")
        == "show wf_aaaaaaaaaaaa qqqqqqqq is_stale"
    )
    assert names.match_output("got wf_n1un6fdh59ym", "got wf_aaaaaaaaaaaa") == ""
    assert names.match_output("got wf_n1un6fdh59ym", "got wf_bbbbbbbbbbbb") != ""


def test_a_program_that_still_runs_may_have_printed_more_than_a_page_shows():
    printed = "Open: http://127.0.0.1/?token=dw_a_b-c\nINFO Started\n"

    assert PageIds().match_output("Open: http://127.0.0.1/?token=…", printed, goes_on=True) == ""
    assert PageIds().match_output("Open: http://127.0.0.1/?token=…", printed) != ""
    assert PageIds().match_output("Open: http://127.0.0.2/?token=…", printed, goes_on=True) != ""


def read(folder: Path, text: str) -> list[Block]:
    page = folder / "page.md"
    page.write_text(text)
    return parse_blocks(page)


def test_a_block_is_commands_with_their_output(tmp_path: Path):
    [block] = read(tmp_path, '```console exit="1"\n$ one \\\n    more\n$ two\nout\n\nput\n```\n')

    assert [(step.command, step.shown) for step in parse_steps(block)] == [
        ("one \\\n    more", ""),
        ("two", "out\n\nput"),
    ]
    assert block.attributes == {"exit": "1"}


def test_comments_contain_hidden_commands_and_attributes(tmp_path: Path):
    hidden, shown = read(
        tmp_path, '<!-- console\n$ ready\n-->\n\n<!-- fence: title="a.yml" -->\n```yaml\na: 1\n```\n'
    )

    assert [step.command for step in parse_steps(hidden)] == ["ready"]
    assert (shown.title, shown.text) == ("a.yml", "a: 1\n")


@pytest.mark.parametrize("header", ["console slowly", "console not-run", 'console not-run=""'])
def test_an_invalid_fence_is_refused(tmp_path: Path, header: str):
    with pytest.raises(FenceError):
        read(tmp_path, f"```{header}\n$ true\n```\n")


def test_a_terminal_keeps_its_shell_and_ends_its_processes(tmp_path: Path):
    with Terminal(tmp_path, {"elsewhere.example": "here"}) as terminal:
        terminal.run("mkdir inner && cd inner && export KEPT=yes")
        assert terminal.run("echo $KEPT elsewhere.example; pwd; exit_code() { return 3; }; exit_code") == (
            3,
            "yes elsewhere.example\n/home/ada/shop/inner\n",
        )
        assert terminal.folder == terminal.project / "inner"
        started = terminal.leave_running(
            "echo $BASHPID; exec sleep 600", lambda printed: printed.endswith("\n")
        )
        assert terminal.list_ended_early() == []

    assert not is_running(int(started))
