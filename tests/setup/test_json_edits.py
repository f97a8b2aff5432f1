"""Edits of JSON keep all other entries, their order and comments."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.views.setup import jsonc
from deepwork.views.setup.json_edits import append, insert, remove, replace, update

PATH = ("mcpServers", "deepwork")
ENTRY = {"command": "deepwork", "args": ["serve", "--path", "."], "env": {"DEEPWORK_SETUP": "entry"}}

_words = st.text(st.characters(codec="utf-8"), max_size=6)
_names = st.one_of(_words, st.sampled_from(["mcpServers", "other", "hooks", "//", "/*", "a{b", '"']))
_plain = st.one_of(
    st.none(), st.booleans(), st.integers(-999, 999), st.floats(allow_nan=False, allow_infinity=False), _words
)


_SPACES = [
    "",
    " ",
    "\n",
    "\n    ",
    "\t",
    "\r\n",
    " /* a, {b */ ",
    '// [c: "\n',
    "/**/",
    "\n  // d // e\n\n",
    "/* f\n */",
]


def draw_spaces() -> st.SearchStrategy[str]:
    """What may stand between two tokens."""
    return st.lists(st.sampled_from(_SPACES), max_size=2).map("".join)


@st.composite
def draw_written(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody wrote it: any spaces, comments and trailing commas."""
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    parts = []
    for item in value.items() if isinstance(value, dict) else value:
        named = (
            f"{json.dumps(item[0])}{draw(draw_spaces())}:{draw(draw_spaces())}"
            if isinstance(value, dict)
            else ""
        )
        parts.append(
            draw(draw_spaces())
            + named
            + draw(draw_written(item[1] if isinstance(value, dict) else item))
            + draw(draw_spaces())
        )
    trailing = draw(st.sampled_from(["", ","])) if parts else ""
    trailing += draw(draw_spaces()) if trailing else ""
    return opening + (",".join(parts) + trailing if parts else draw(draw_spaces())) + closing


_values = st.recursive(
    _plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def draw_documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A whole file that has no entry of ours, with or without the section it would go into."""
    data = draw(st.dictionaries(_names, _values, max_size=3))
    data.pop("mcpServers", None)
    if draw(st.booleans()):
        data["mcpServers"] = draw(
            st.dictionaries(_names.filter(lambda name: name != "deepwork"), _values, max_size=2)
        )
        data = dict(draw(st.permutations(list(data.items()))))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + draw(draw_spaces()) + draw(draw_written(data)) + draw(draw_spaces()), data


def parse_data(text: str) -> Any:
    root = jsonc.parse(text).root
    return root.data if root else None


_REMARK = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', re.DOTALL)


def list_comments(text: str) -> list[str]:
    """The comments, in their order."""
    return [found[1] for found in _REMARK.finditer(text) if found[1]]


def drop_empty(data: dict[str, Any]) -> dict[str, Any] | None:
    """The data without an empty section of servers; None for nothing at all."""
    return {key: value for key, value in data.items() if key != "mcpServers" or value} or None


def require_same_content(left: str, text: str, data: dict[str, Any]) -> None:
    """Require that our entry is gone, and that data, order and comments are those of the text before it."""
    found = parse_data(left) or {}
    assert drop_empty(found) == drop_empty(data), text
    assert list(found) == list(drop_empty(data) or {}) or list(found) == list(data), text
    assert list_comments(left) == list_comments(text), text


@given(draw_documents(), _values)
@settings(max_examples=60, deadline=None)
def test_inserting_changes_nothing_else_and_can_be_undone(document: tuple[str, dict[str, Any]], value: Any):
    text, data = document

    new = insert(text, PATH, ENTRY)
    changed = replace(new, PATH, value)

    assert parse_data(text) == data
    assert parse_data(new) == {**data, "mcpServers": {**data.get("mcpServers", {}), "deepwork": ENTRY}}
    assert parse_data(changed)["mcpServers"]["deepwork"] == value
    assert list_comments(new) == list_comments(text)
    require_same_content(remove(new, PATH), text, data)
    require_same_content(remove(changed, PATH), text, data)


def test_a_thousand_files_keep_their_content_and_comments():
    chance = random.Random(20)
    for _ in range(1000):
        text = build_file(chance)

        new = insert(text, PATH, ENTRY)

        assert parse_data(new)["mcpServers"]["deepwork"] == ENTRY, text
        assert list_comments(new) == list_comments(text), text
        require_same_content(remove(new, PATH), text, parse_data(text))


def build_file(chance: random.Random) -> str:
    """A file as chance writes it: less odd than Hypothesis's, but many."""

    def gap() -> str:
        return "".join(chance.choices(_SPACES, k=chance.choice([0, 1, 1, 2])))

    def thing(depth: int) -> str:
        kind = chance.choice("ol12") if depth else "1"
        if kind == "o":
            names = chance.sample(["a", "b", "mcp", "//", "hooks"], chance.randint(0, 3))
            return held("{}", [f'"{name}"{gap()}:{gap()}{thing(depth - 1)}' for name in names])
        if kind == "l":
            return held("[]", [thing(depth - 1) for _ in range(chance.randint(0, 2))])
        return chance.choice(["1", "null", '"x, }"', "true", '"// no remark"', "[]", "{}"])

    def held(brackets: str, parts: list[str]) -> str:
        inside = ",".join(gap() + part + gap() for part in parts)
        trailing = "," + gap() if parts and chance.random() < 0.3 else ""
        return brackets[0] + (inside + trailing or gap()) + brackets[1]

    parts = [f'"{name}":{thing(2)}' for name in chance.sample("abc", chance.randint(0, 2))]
    if chance.random() < 0.6:
        servers = [f'"{name}": {thing(1)}' for name in chance.sample("xyz", chance.randint(0, 2))]
        parts.insert(chance.randint(0, len(parts)), f'"mcpServers"{gap()}:{gap()}{held("{}", servers)}')
    return gap() + held("{}", parts) + gap()


@given(
    draw_documents(),
    st.lists(st.sampled_from(["SessionStart", "Stop", "PostToolUse"]), min_size=1, max_size=3, unique=True),
)
@settings(max_examples=25, deadline=None)
def test_items_appended_to_lists_can_be_removed(document: tuple[str, dict[str, Any]], events: list[str]):
    text, data = document
    if "hooks" in data:
        return  # whatever that is, it is not for us

    new = text
    for event in events:
        new = append(new, ("hooks", event), {"hooks": [1]})
    for event in reversed(events):
        new = remove(new, ("hooks", event, 0))

    assert (parse_data(new) or {}) == data
    assert list_comments(new) == list_comments(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "// only this",
        "// only this\n",
        "/* and */ // this\r\n\r\n",
        "// one\r\n  // two",
        "\ufeff// three\n ",
        "{}",
        "{ }",
        "{\n}\n",
        '{"mcpServers": {}}',
        '{\n  "mcpServers": {}\n}',
        '{\n\t"a": 1, // why\n}\n',
        '{"a":1}\r\n',
        '{\r\n  "mcpServers": {\r\n  }\r\n}\r\n',
    ],
)
def test_an_entry_can_be_added_to_and_removed_from_common_files(text: str):
    new = insert(text, PATH, ENTRY)

    assert parse_data(new)["mcpServers"] == {"deepwork": ENTRY}
    require_same_content(remove(new, PATH), text, parse_data(text) or {})


def test_removing_one_of_several_entries_leaves_other_text_unchanged():
    text = '{\n  "mcpServers": {\n    "mine": {"url": "x"} // keep\n  },\n  "a": [1,\n    2]\n}'

    assert remove(insert(text, PATH, ENTRY), PATH) == text


@pytest.mark.parametrize("text", ["// mine", "// mine\n", "/* a */\r\n// b"])
def test_files_with_only_comments_keep_them(text: str):
    new = append(text, ("hooks", "Stop"), {"hooks": [1]})

    assert parse_data(new) == {"hooks": {"Stop": [{"hooks": [1]}]}}
    assert remove(new, ("hooks", "Stop", 0)).rstrip() == text.rstrip()


def test_an_update_changes_given_members_only():
    text = insert('{"a": 1}', PATH, {"command": "old", "mine": 2})

    new = update(text, PATH, {"command": "new", "args": []})

    assert parse_data(new) == {"a": 1, "mcpServers": {"deepwork": {"command": "new", "mine": 2, "args": []}}}


def test_a_new_member_follows_the_indentation_and_comments_of_the_file():
    text = '{\n\t"servers": {\n\t\t"a": {"url": "x"} // mine\n\t},\n}\n'

    new = insert(text, ("servers", "deepwork"), {"command": "deepwork"})

    assert new == (
        '{\n\t"servers": {\n\t\t"a": {"url": "x"}, // mine\n\t\t"deepwork": {\n\t\t\t"command": "deepwork"\n\t\t}\n\t},\n}\n'
    )


def test_entries_added_later_are_kept_when_ours_is_removed():
    text = insert(insert("{}", PATH, ENTRY), ("mcpServers", "mine"), 1)

    assert parse_data(remove(text, PATH)) == {"mcpServers": {"mine": 1}}


def test_a_comment_added_later_keeps_its_container():
    text = insert("{}", PATH, ENTRY).replace('{\n    "deepwork"', '{ // keep me\n    "deepwork"')

    left = remove(text, PATH)

    assert parse_data(left) == {"mcpServers": {}}
    assert "// keep me" in left


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", 1), ('{\n  "a" 1}', 2), ('{"a": 1\n "b": 2}', 2), ('{"a": tru}', 1), ('{"a": "x\n"}', 1), ("{} {}", 1),
        ("{'a': 1}", 1), ('{\n\n"a": NaN}', 3), ("{,}", 1), ('{"a": }', 1), ("/* open", 1), ("[" * 300, 1), ("{\n}\n]", 3),
        ('{"a": 01}', 1), ('{"\\x": 1}', 1),
    ],
)  # fmt: skip
def test_invalid_json_is_reported_with_its_line(text: str, line: int):
    with pytest.raises(jsonc.UnreadableText) as error:
        jsonc.parse(text)

    assert error.value.line == line


@pytest.mark.parametrize(
    ("text", "line"), [("[]", 1), ('{\n"mcpServers": []}', 2), ('{\n\n"mcpServers": null}', 3)]
)
def test_a_section_that_is_not_an_object_is_refused(text: str, line: int):
    with pytest.raises(jsonc.UnreadableText, match="must be an object") as error:
        insert(text, PATH, ENTRY)

    assert error.value.line == line
