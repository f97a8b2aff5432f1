"""YAML is read as plain data with line numbers; harmful input is refused with its line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from deepwork.kernel.errors import Code, DefinitionError
from deepwork.kernel.files import yaml as deepwork_yaml
from deepwork.kernel.files.yaml import load_yaml
from effort import measure_effort

JOB = """\
# a comment
name: report
steps:
  - name: draft
    outputs: [a.md, b.md]
  -
    name: review
    after: &before
      - draft
    also: *before
"""


def load(text: str) -> Any:
    return load_yaml(text, source="job.yml").data


def load_invalid(text: str) -> str:
    with pytest.raises(DefinitionError) as refused:
        load_yaml(text, source="job.yml")
    return refused.value.message


def test_a_document_is_plain_data() -> None:
    assert load(JOB) == {
        "name": "report",
        "steps": [
            {"name": "draft", "outputs": ["a.md", "b.md"]},
            {"name": "review", "after": ["draft"], "also": ["draft"]},
        ],
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("name",), 2),
        (("steps",), 3),
        (("steps", 0), 4),
        (("steps", 0, "name"), 4),
        (("steps", 0, "outputs", 1), 5),
        (("steps", 1), 7),
        (("steps", 1, "after", 0), 9),
        (("steps", 1, "also"), 10),
        (("steps", 1, "also", 0), 9),
    ],
)
def test_every_value_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert load_yaml(JOB, source="job.yml").get_line(*path) == line


def test_a_missing_key_has_the_line_of_its_parent() -> None:
    document = load_yaml(JOB, source="job.yml")

    assert document.get_line("steps", 1, "instructions_file") == 7
    assert document.get_line("steps", 9) == 3
    assert document.get_line("nothing", "at", "all") == 2


def test_a_problem_found_later_is_reported_in_the_same_form() -> None:
    error = load_yaml(JOB, source="job.yml").build_error("No such step", "steps", 1, "after", 0)

    assert error.message == "job.yml:9: No such step."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        (str(2**53), 2**53),
        ("1.50", 1.5),
        ("-0.5e-3", -0.0005),
        ("yes", "yes"),
        ("on", "on"),
        ("No", "No"),
        ("tRUE", "tRUE"),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("1e5", "1e5"),
        (".5", ".5"),
        ("1.", "1."),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-31", "2024-01-31"),
        ("=", "="),
        ('"true"', "true"),
        ("'12'", "12"),
        ("|\n  12", "12"),
        ("١٢", "١٢"),
    ],
)
def test_a_scalar_is_text_unless_it_is_clearly_another_type(text: str, value: object) -> None:
    found = load(f"a: {text}")["a"]

    assert (found, type(found)) == (value, type(value))


def test_a_key_is_always_text() -> None:
    assert load("on: 1\n1: 2\ntrue: 3\n'<<': 4") == {"on": 1, "1": 2, "true": 3, "<<": 4}


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "---\n", "\n\n"])
def test_an_empty_document_is_none(text: str) -> None:
    assert load(text) is None


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: 2\na: 3", 3, "The key 'a' occurs twice, first in line 1"),
        ("x:\n  - {a: 1, a: 2}", 2, "The key 'a' occurs twice"),
        ("a: 1\n'a': 2", 2, "twice"),
        ("a: !!python/object/apply:os.system [id]", 1, "The tag"),
        ("a:\n  !include x", 2, "The tag"),
        ("a: !!str 1", 1, "The tag"),
        ("!x a: 1", 1, "plain text"),
        ("b: &b {c: 1}\na:\n  <<: *b", 3, "Merge keys"),
        ("? [a]\n: 1", 1, "A key must be plain text"),
        ("a: &k x\n*k : 1", 2, "A key must be plain text"),
        ("a: 1\n---\nb: 2", 2, "A second document"),
        ("a: *nobody", 1, "*nobody"),
        ("a: &a [*a]", 1, "*a"),
        (f"a: {2**53 + 1}", 1, "too large to be exact"),
        ("a: -99999999999999999", 1, "too large to be exact"),
        ("a: 1.0e999", 1, "too large"),
        ("%YAML 1.1\n---\na: 1", 1, "directives"),
        ("a: [1, 2", 1, "did not find expected"),
        ("a:\n\tb: 1", 2, "cannot start any token"),
        ("a: 'open", 1, "unexpected end of stream"),
        ("ok: 1\na: \0", 2, "control character"),
        ("ok: 1\na: \x1b[31m", 2, "control character"),
        ("ok: 1\na: \ud800", 2, "Unicode"),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(text: str, line: int, problem: str) -> None:
    message = load_invalid(text)

    assert message.startswith(f"job.yml:{line}: ")
    assert problem in message


def test_a_file_over_the_limit_is_too_large() -> None:
    with pytest.raises(DefinitionError) as refused:
        load_yaml("é" * 6, source="job.yml", max_bytes=11)

    assert refused.value.code == Code.TOO_LARGE


HOSTILE = {
    "brackets": "[" * 1_000_000,
    "braces": "{" * 1_000_000,
    "dashes": "- " * 500_000,
    "keys in keys": "? " * 500_000,
    "mixed nesting": "- [{a: " * 140_000,
    "indentation": "".join(" " * depth + "a:\n" for depth in range(1_400)),
    "many items": "[" + "a," * 500_000 + "]",
    "many lines": "- a\n" * 250_000,
    "empty items": "-\n" * 500_000,
    "many keys": "".join(f"k{number}: 1\n" for number in range(80_000)),
    "one key": "a: 1\n" * 200_000,
    "many documents": "---\n" * 250_000,
    "billion laughs": "a0: &a0 [x]\n"
    + "".join(f"a{level}: &a{level} [{f'*a{level - 1},' * 9}]\n" for level in range(1, 30)),
    "many aliases": "a: &a x\nb: [" + "*a," * 300_000 + "]",
    "few aliases of much": "a: &a [" + "x," * 20_000 + "]\nb: [" + "*a," * 10 + "]",
    "contains itself": "&a [*a, *a]",
    "huge integer": "a: " + "9" * 1_000_000,
    "huge float": "a: 1.0e" + "9" * 1_000_000,
    "long tag": "a: !" + "x" * 1_000_000,
    "tag directives": "".join(f"%TAG !a{number}! x\n" for number in range(60_000)),
    "python object": "!!python/object/apply:os.system ['touch /tmp/deepwork-owned']",
    "open quote": 'a: "' + "x" * 1_000_000,
    "long key": "a" * 1_000_000 + ": b",
    "stars": "*" * 1_000_000,
    "anchors": "&a " * 300_000,
    "commas": "[" + "," * 1_000_000,
    "separators": "a: [\u2028" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_quickly(name: str) -> None:
    messages: list[str] = []

    effort = measure_effort(lambda: messages.append(load_invalid(HOSTILE[name])), enough=150)

    assert messages[0].startswith("job.yml:")
    assert len(messages[0]) < 1000
    assert effort < 150


def test_hostile_documents_need_little_memory(tmp_path: Path) -> None:
    """Load each in one process that may not grow by 64 MB."""
    for number, text in enumerate(HOSTILE.values()):
        (tmp_path / f"{number}.yml").write_text(text)
    script = (
        "import pathlib, resource, sys\n"
        "from deepwork.kernel.errors import DefinitionError\n"
        "from deepwork.kernel.files.yaml import load_yaml\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "for path in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    try: load_yaml(path.read_text(), source=path.name)\n"
        "    except DefinitionError: pass\n"
        "print((peak() - before) // 1024)"
    )
    source = str(Path(deepwork_yaml.__file__).parents[3])

    grown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={"PYTHONPATH": source},
        capture_output=True,
        check=True,
    )

    assert int(grown.stdout) < 64


def test_without_the_c_parser_the_same_documents_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepwork_yaml, "_Parser", pyyaml.SafeLoader)

    assert load(JOB)["steps"][1]["also"] == ["draft"]
    assert load_invalid("ok: 1\na: \0").startswith("job.yml:2: ")
    assert load_invalid("[" * 1000).startswith("job.yml:1: ")
    assert load_invalid("a: [1, 2").startswith("job.yml:1: ")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_dumped_yaml_is_read_back(data: object) -> None:
    assert load(pyyaml.safe_dump(data)) == data


@given(st.text("ab:- \n[]{}&*!|>'\"%#?,\t~<0", max_size=60))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    message = "job.yml:"

    try:
        load_yaml(text, source="job.yml")
    except DefinitionError as refused:
        message = refused.message

    assert message.startswith("job.yml:")
