"""Simple settings files are read without a YAML parser, as that reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.files.plain_yaml import read_plain_mapping
from deepwork.kernel.files.yaml import load_yaml
from deepwork.views.setup.project import render_config

PIECES = [
    "git_branch", "a", ":", ": ", " ", "\n", "#", " # note", "[", "]", ", ", ",", "-", "--- ", "off", "True", "null", "~",
    "0", "12", "012", "1.5", ".5", "1e3", "0x1f", "9" * 17, "'", '"', "x/y.z", "é", "\t", "\r", "<<", "&x ", "*x", "!t ", "%", "|", "{}",
]  # fmt: skip
LINES = st.sampled_from(
    [
        "",
        "# all",
        "a: b",
        "b: [c, d]",
        "c:",
        "d: 3 # note",
        "e:  off",
        "a: c",
        "f: 'g'",
        "g: [1, x]",
        "h: [a,b]",
    ]
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.lists(LINES, max_size=6).map("\n".join)
)


@given(TEXTS)
def test_what_is_read_here_is_what_the_parser_reads(text: str):
    found = read_plain_mapping(text)

    if found is not None:
        assert json.dumps(found) == json.dumps(load_yaml(text, source="x").data or {})


def test_what_the_parser_refuses_is_left_to_it():
    text = "a: b\na: c\n"

    assert read_plain_mapping(text) is None
    with pytest.raises(DefinitionError):
        load_yaml(text, source="x")


@pytest.mark.parametrize(
    "text", [render_config(), "lease_seconds: 30\nplatforms: [claude, codex]  # both\ntoolsets:\n"]
)
def test_usual_settings_are_read_here(text: str):
    assert read_plain_mapping(text) is not None
