"""`make bench` itself: its rows, its exit code and its table. What it measures is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import rival, run
from benchmarks.clients import parse_message
from benchmarks.crowd import join_chunks
from benchmarks.report import (
    MAX_MISSES,
    build_figures,
    compare_with_baseline,
    format_misses,
    format_table,
    is_beyond,
    is_missed,
    list_misses,
    replace_sections,
)
from benchmarks.rows import SECTIONS, WAITED_FOR, Guard, Row, Section, compare
from benchmarks.timing import Effort, Samples, take_turns

from deepwork.edge.server import prepared_tools

ROOT = Path(__file__).parents[2]


def build_section(samples: Samples, *rows: Row) -> Section:
    return Section("calls", "Calls.", lambda _: samples, rows)


def build_rows(samples: Samples, *rows: Row) -> list[dict[str, Any]]:
    return list(build_figures(build_section(samples, *rows), samples))


SLOW = Row("slow", "floor", 2)
BUSY = Row("busy", "floor", 2, "/s")
SAMPLES = {"floor": [1.0, 2.0, 9.0], "slow": [5.0], "busy": [5.0]}


def test_sections_and_their_rows_have_unique_names():
    for names in ([each.name for each in SECTIONS], *([row.name for row in each.rows] for each in SECTIONS)):
        assert len(names) == len(set(names))


def test_the_floor_of_a_row_is_a_row_of_the_same_section_and_unit():
    for section in SECTIONS:
        units = {row.name: row.unit for row in section.rows}
        for row in section.rows:
            assert not row.floor or units[row.floor] == row.unit, row
            assert row.limit is None or row.floor, row


def test_a_figure_is_a_median_and_its_ratio_to_the_median_of_the_floor():
    floor, slow = build_rows(SAMPLES, Row("floor"), SLOW, BUSY)[:2]

    assert floor == {"section": "calls", "name": "floor", "unit": "ms", "value": 2.0}
    assert (slow["value"], slow["ratio"], slow["target"]) == (5.0, 2.5, 2)


def test_a_time_must_not_exceed_its_target_and_a_rate_must_reach_it():
    _, slow, busy = build_rows(SAMPLES, Row("floor"), SLOW, BUSY)

    assert is_missed(slow)
    assert not is_missed(busy)
    assert not is_missed({**slow, "ratio": 2})
    assert is_missed({**busy, "ratio": 1.99})


def test_a_measured_value_without_a_row_is_an_error():
    with pytest.raises(ValueError, match="no row unknown"):
        build_rows({"floor": [1.0], "unknown": [1.0]}, Row("floor"))


def test_a_row_that_cannot_be_measured_here_is_left_out():
    assert [figure["name"] for figure in build_rows({"floor": [1.0]}, Row("floor"), SLOW)] == ["floor"]


def test_the_table_marks_what_missed_its_target():
    figures = build_rows(SAMPLES, Row("floor"), SLOW, BUSY)

    floor, slow, busy = format_table(figures).splitlines()[-3:]
    assert floor.split() == ["floor", "2.00", "ms"]
    assert slow.split() == ["slow", "5.00", "ms", "2.50", "≤", "2", "MISSED"]
    assert busy.split() == ["busy", "5.00", "/s", "2.50", "≥", "2"]


def test_a_limit_that_was_set_after_a_figure_is_a_guard_and_no_target():
    _, guarded = build_rows({"floor": [2.0], "slow": [5.0]}, Row("floor"), Row("slow", "floor", Guard(2)))

    assert (guarded.get("target"), guarded["guard"]) == (None, 2)
    assert is_beyond(guarded)
    assert not is_missed(guarded)
    assert "BEYOND" in format_table([guarded])


def test_rows_of_a_section_that_miss_their_targets_for_one_reason_are_one_entry(
    monkeypatch: pytest.MonkeyPatch,
):
    rows = (
        *compare("floor", {"slow": 2, "slower": 1}, why="Ice."),
        *compare("rate", {"low": 9}, "/s", "Snow."),
    )
    section = build_section({}, *rows)
    monkeypatch.setattr("benchmarks.report.SECTIONS", (section,))
    samples = {"floor": [2.0], "slow": [5.0], "slower": [6.0], "rate": [1.0], "low": [8.0]}

    misses = list_misses(build_figures(section, samples))

    assert [(miss.why, [row["name"] for row in miss.figures]) for miss in misses] == [
        ("Ice.", ["slow", "slower"]),
        ("Snow.", ["low"]),
    ]


def test_no_more_than_ten_entries_are_listed():
    figures = [
        {"section": f"s{number}", "name": "row", "unit": "ms", "value": 9, "ratio": 9, "target": 1}
        for number in range(12)
    ]

    listed = format_misses(figures).splitlines()

    assert sum(line.startswith("  s") for line in listed) == MAX_MISSES
    assert "2 more" in listed[-1]


def test_every_missed_target_of_the_baseline_has_a_reason_and_there_are_at_most_ten():
    misses = list_misses(json.loads(run.BASELINE.read_text())["rows"])

    assert [miss.figures for miss in misses if not miss.why] == []
    assert len(misses) <= MAX_MISSES


def test_what_users_wait_for_is_measured():
    rows = {(section.name, row.name): row for section in SECTIONS for row in section.rows}

    assert [each[1:] for each in WAITED_FOR if each[1:] not in rows or not rows[each[1:]].floor] == []


@pytest.mark.parametrize(
    ("unit", "now", "is_named"),
    [("ms", 2.6, True), ("ms", 2.4, False), ("/s", 1.5, True), ("/s", 1.7, False)],
)
def test_a_ratio_that_is_a_quarter_worse_than_the_baseline_is_named(unit: str, now: float, is_named: bool):
    before = {"section": "calls", "name": "a row", "unit": unit, "floor": "floor", "value": 1, "ratio": 2.0}

    assert ("a row" in compare_with_baseline([before], [before | {"ratio": now}])) == is_named


def test_saving_some_sections_keeps_the_others_of_the_baseline():
    old = [{"section": name, "name": "old"} for name in ("no longer", "calls", "starts")]

    kept = replace_sections(old, [{"section": "calls", "name": "new"}])

    assert [(each["section"], each["name"]) for each in kept] == [("starts", "old"), ("calls", "new")]


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--strict"], 1)])
def test_a_missed_target_ends_with_1_only_when_strict(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "SECTIONS", (build_section(SAMPLES, Row("floor"), SLOW, BUSY),))
    files = ["--json", str(tmp_path / "bench.json"), "--baseline", str(tmp_path / "baseline.json")]

    assert run.main([*words, *files]) == code
    assert len(json.loads((tmp_path / "bench.json").read_text())["rows"]) == 3


def test_only_sections_that_match_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_: Effort) -> Samples:
        raise AssertionError("not selected")

    chosen = build_section(SAMPLES, Row("floor"), SLOW, BUSY)
    monkeypatch.setattr(run, "SECTIONS", (Section("jobs", "Jobs.", fail, ()), chosen))
    files = ["--json", str(tmp_path / "bench.json"), "--baseline", str(tmp_path / "baseline.json"), "--save"]

    assert run.main(["--only", "^calls$", *files]) == 0
    saved = json.loads((tmp_path / "baseline.json").read_text())["rows"]
    assert [each["name"] for each in saved] == ["floor", "slow", "busy"]


def test_a_pattern_that_matches_nothing_is_an_error(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run.main(["--only", "nothing-like-this"])

    assert ended.value.code == 2
    assert "--list" in capsys.readouterr().err


def test_the_list_says_which_sections_are_left_out_without_an_option(capsys: pytest.CaptureFixture[str]):
    def list_left_out(*words: str) -> set[str]:
        run.main(["--list", *words])
        return {line.split()[0] for line in capsys.readouterr().out.splitlines() if "Left out" in line}

    assert list_left_out() == {"rival", "rival-http"}
    assert list_left_out("--rival", "some server") == {"rival-http"}


def test_asking_only_for_a_section_without_its_option_is_an_error(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run.main(["--only", "^rival$"])

    assert ended.value.code == 2
    assert "--rival COMMAND" in capsys.readouterr().err


def test_a_stream_of_events_and_chunks_are_read_like_a_plain_body():
    message = b'{"jsonrpc":"2.0","id":1,"result":{}}'

    assert parse_message(message) == parse_message(b"event: message\ndata: " + message + b"\n\n")
    assert join_chunks(b'5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n') == b'{"a":1}'


@pytest.mark.parametrize(("checksum", "warns"), [(0, True), (1, False)])
def test_outdated_descriptions_which_make_servers_start_slowly_are_said(
    checksum: int,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"checksum": checksum}))
    monkeypatch.setattr(prepared_tools, "TOOLS_FILE", file)
    monkeypatch.setattr(prepared_tools, "compute_checksum", lambda: 1)

    run.warn_of_outdated_descriptions()

    assert ("make docs" in capsys.readouterr().err) == warns


def test_rows_take_turns_and_warming_up_is_not_counted():
    called: list[str] = []

    took = take_turns({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, rounds=2, calls=2)

    assert "".join(called) == "aabb" * 3
    assert {name: len(values) for name, values in took.items()} == {"a": 4, "b": 4}


QUICK = {"calls", "commands"}


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(each.name, marks=() if each.name in QUICK else pytest.mark.thorough)
        for each in SECTIONS
        if not each.needs
    ],
)
def test_a_section_measures_every_row_with_the_real_program(section: str, tmp_path: Path):
    """The least that can be measured; what takes longest is thorough."""
    assert measure_least(section, tmp_path) == list_rows(section)


SERVER = f"{sys.executable} -P -m deepwork serve --path . --db {{db}}"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("section", "option"),
    [
        ("rival", ["--rival", SERVER]),
        ("rival-http", ["--rival-http", f"{SERVER} --transport http --port {{port}} --rate-limit 0"]),
    ],
)
def test_any_command_that_serves_the_tools_can_be_the_rival(section: str, option: list[str], tmp_path: Path):
    measured = measure_least(section, tmp_path, *option)

    has_memory = rival.MEMORY.is_dir()
    assert measured == [row for row in list_rows(section) if has_memory or rival.UNFLUSHED not in row]


def list_rows(section: str) -> list[str]:
    [rows] = [each.rows for each in SECTIONS if each.name == section]
    return [row.name for row in rows]


def measure_least(section: str, folder: Path, *option: str) -> list[str]:
    words = ["--only", f"^{section}$", "--rounds", "1", "--calls", "1", "--starts", "1", *option]
    files = ["--json", str(folder / "bench.json"), "--baseline", str(folder / "baseline.json")]
    subprocess.run([sys.executable, "-m", "benchmarks.run", *words, *files], cwd=ROOT, check=True)
    return [figure["name"] for figure in json.loads((folder / "bench.json").read_text())["rows"]]
