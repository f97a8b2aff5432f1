"""A `.deepreview` gives its rules; what is broken in it is named with file and line, and nothing else is lost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepwork.gates.reviews.discovery import RuleCatalog
from deepwork.gates.reviews.models import Strategy
from deepwork.kernel.files.paths import read_confined
from reviews.make import load_rules, make_rule_data

TAIL = """\
  match: {include: ["**"]}
  review: {strategy: individual, instructions: i}
"""
BODY = f"  description: d\n{TAIL}"
FLOW = '{description: d, match: {include: ["**"]}, review: {strategy: individual, instructions: i}}'


def write_rules(root: Path, content: Any, folder: str = "") -> Path:
    path = root / folder / ".deepreview"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def find_problems(root: Path, content: Any) -> list[str]:
    write_rules(root, content)
    found = load_rules(root)
    assert found.rules == ()
    return list(map(str, found.problems))


def test_every_key_of_a_rule_is_loaded(tmp_path: Path):
    write_rules(
        tmp_path,
        """\
python-style_2:
  description: Style of Python.
  match:
    include: ["src/**/*.py", "*.pyi"]
    exclude: ["**/generated/**"]
  review:
    strategy: matches_together
    instructions: |

      Look at names.

    agent: {claude: stylist, codex: other}
    additional_context:
      all_changed_filenames: true
      unchanged_matching_files: true
""",
    )

    [rule] = load_rules(tmp_path).rules

    assert (rule.name, rule.description) == ("python-style_2", "Style of Python.")
    assert (rule.file, rule.line, rule.defining_file) == (".deepreview", 1, ".deepreview:1")
    assert rule.include.filter(["src/a.py", "b.pyi", "b.py"]) == ["src/a.py", "b.pyi"]
    assert rule.exclude.matches("src/generated/a.py")
    assert rule.strategy is Strategy.MATCHES_TOGETHER
    assert rule.instructions == "Look at names."
    assert rule.agents == {"claude": "stylist", "codex": "other"}
    assert (rule.names_all_changed, rule.shows_unchanged) == (True, True)


def test_optional_keys_have_defaults(tmp_path: Path):
    write_rules(tmp_path, {"plain": make_rule_data("*.py")})

    [rule] = load_rules(tmp_path).rules

    assert not rule.exclude.matches("a.py")
    assert (rule.agents, rule.names_all_changed, rule.shows_unchanged) == ({}, False, False)


@pytest.mark.parametrize("strategy", ["individual", "matches_together", "all_changed_files"])
def test_every_strategy_is_accepted(tmp_path: Path, strategy: str):
    write_rules(tmp_path, {"rule": make_rule_data(strategy=strategy)})

    assert [rule.strategy for rule in load_rules(tmp_path).rules] == [strategy]


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n", "{}", "\ufeff", "~"])
def test_an_empty_file_defines_no_rules_and_is_valid(tmp_path: Path, content: str):
    write_rules(tmp_path, content)

    assert (load_rules(tmp_path).rules, load_rules(tmp_path).problems) == ((), ())


STYLES = {
    "block": (f"first:\n{BODY}second:\n{BODY}", [1, 5]),
    "quoted": (f"\"first\":\n{BODY}\n'second':\n{BODY}", [1, 6]),
    "flow": (f"{{\n first: {FLOW},\n\n second: {FLOW}}}\n", [2, 4]),
    "flow on one line": (f"{{first: {FLOW}, second: {FLOW}}}", [1, 1]),
    "comments": (f"# first:\n#second: no\n\nfirst: # yes\n{BODY}  # second:\n\nsecond:\n{BODY}", [4, 10]),
    "a document start": (f"---\nfirst:\n{BODY}second:\n{BODY}...\n", [2, 6]),
    "anchors": (f"first: &same\n{BODY}second: *same\n", [1, 5]),
    "explicit keys": (f"? first\n: {FLOW}\n? second\n: {FLOW}\n", [1, 3]),
    "JSON": (json.dumps({"first": make_rule_data(), "second": make_rule_data()}, indent=2), [2, 14]),
    "windows": (f"first:\n{BODY}second:\n{BODY}".replace("\n", "\r\n"), [1, 5]),
    "a mark first": (f"\ufefffirst:\n{BODY}second:\n{BODY}", [1, 5]),
    "text that looks like a rule": (f"first:\n  description: |\n    second:\n{TAIL}second:\n{BODY}", [1, 6]),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_rules_have_the_right_line_in_every_yaml_style(tmp_path: Path, style: str):
    content, lines = STYLES[style]
    (tmp_path / ".deepreview").write_bytes(content.encode())

    found = load_rules(tmp_path)

    assert found.problems == ()
    assert [(rule.name, rule.line) for rule in found.rules] == list(
        zip(["first", "second"], lines, strict=True)
    )


def changed(key: str, value: Any, **within: Any) -> Any:
    """A rule with one thing different."""
    rule = make_rule_data(**within)
    where = rule
    *path, last = key.split(".")
    for part in path:
        where = where.setdefault(part, {})
    if value is None:
        del where[last]
    else:
        where[last] = value
    return {"rule": rule}


BROKEN: list[tuple[str, Any, str]] = [
    ("no description", changed("description", None), "rule: the key 'description' is missing; add it: "),
    ("no match", changed("match", None), "rule: the key 'match' is missing; add it: "),
    ("no review", changed("review", None), "rule: the key 'review' is missing; add it: "),
    ("no include", changed("match.include", None), "rule -> match: the key 'include' is missing; "),
    ("no strategy", changed("review.strategy", None), "rule -> review: the key 'strategy' is missing; "),
    ("no instructions", changed("review.instructions", None), "rule -> review: the key 'instructions' is missing; "),
    ("a rule that is none", {"rule": "text"}, "rule: this must be a mapping, not text; "),
    ("a rule that is nothing", "rule:\n", "rule: this must be a mapping, not nothing; "),
    ("a key too much", changed("level", 3), "rule -> level: the key 'level' is unknown; "),
    ("a key misspelt", changed("descripton", "x"), "did you mean 'description'?"),
    ("a key of match misspelt", changed("match.exlude", []), "did you mean 'exclude'?"),
    ("a key of review misspelt", changed("review.agents", {}), "did you mean 'agent'?"),
    ("a flag misspelt", changed("review.additional_context", {"all_changed_files": True}), "did you mean 'all_changed_filenames'?"),
    ("an empty description", changed("description", ""), "rule -> description: this is empty; "),
    ("a long description", changed("description", "x" * 257), "this has 257 characters; at most 256 are allowed"),
    ("a description that is a number", changed("description", 5), "this must be text, not the number 5; put it in quotes"),
    ("no pattern", changed("match.include", []), "rule -> match -> include: this list is empty; add at least one entry"),
    ("one pattern, not a list", changed("match.include", "**"), "rule -> match -> include: this must be a list, not text; "),
    ("a pattern that is a number", changed("match.include", [1]), "rule -> match -> include -> 0: this must be text"),
    ("an empty pattern", changed("match.include", [""]), "rule -> match -> include -> 0: this is empty; "),
    ("excludes that are no list", changed("match.exclude", {"a": 1}), "rule -> match -> exclude: this must be a list"),
    ("another strategy", changed("review.strategy", "together"), "rule -> review -> strategy: 'together' is not known; did you mean 'matches_together'?"),
    ("empty instructions", changed("review.instructions", ""), "rule -> review -> instructions: this is empty; "),
    ("blank instructions", changed("review.instructions", " \n "), "rule -> review -> instructions: this is empty; "),
    ("instructions that are a list", changed("review.instructions", ["x"]), "rule -> review -> instructions: a list like this is not allowed here"),
    ("instructions from elsewhere", changed("review.instructions", {"url": "x"}), "a mapping like this is not allowed here"),
    ("no file", changed("review.instructions", {"file": ""}), "rule -> review -> instructions -> file: this is empty; "),
    ("one agent", changed("review.agent", "expert"), "rule -> review -> agent: this must be a mapping"),
    ("an agent that is a list", changed("review.agent", {"claude": []}), "rule -> review -> agent -> claude: this must be text"),
    ("an agent without a name", changed("review.agent", {"claude": ""}), "rule -> review -> agent -> claude: this is empty"),
    ("an agent for nobody", changed("review.agent", {"": "x"}), "the name is empty; give it a name"),
    ("context that is a list", changed("review.additional_context", ["x"]), "additional_context: this must be a mapping"),
    ("a flag in quotes", changed("review.additional_context", {"all_changed_filenames": "yes"}), "this must be true or false, not text"),
    ("a name with a space", {"my rule": make_rule_data()}, "my rule: the name 'my rule' is not allowed; a rule's name has letters, digits, dashes and underscores"),
    ("a name with a dot", {"my.rule": make_rule_data()}, "the name 'my.rule' is not allowed"),
    ("a name with a line break", {"rule\n": make_rule_data()}, r"the name 'rule\n' is not allowed"),
    ("an empty name", {"": make_rule_data()}, "the name is empty; give it a name"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_an_invalid_rule_is_reported(tmp_path: Path, content: Any, said: str):
    [line] = find_problems(tmp_path, content)

    assert line.startswith(".deepreview:")
    assert said in line


HOPELESS = {
    "/abs/**": "starts with a slash",
    "../**": ". or .. as a name",
    "src/./x": ". or .. as a name",
    "src//x": "two slashes in a row",
    "~/x": "starts with a drive or a home directory",
    "C:/x": "starts with a drive or a home directory",
    "src/[ab": "has a [ without a ]",
    "src/{a,b": "has a { without a }",
    "a}": "has a } without a {",
    "[z-a]": "is reversed",
}


@pytest.mark.parametrize("pattern", HOPELESS)
@pytest.mark.parametrize("side", ["include", "exclude"])
def test_w24_a_pattern_that_can_never_match_is_reported(tmp_path: Path, pattern: str, side: str):
    rule = make_rule_data(pattern) if side == "include" else make_rule_data("*.py", exclude=[pattern])

    [line] = find_problems(tmp_path, {"rule": rule})

    assert f"rule -> match -> {side} -> 0: the pattern {pattern!r} " in line
    assert HOPELESS[pattern] in line


@pytest.mark.parametrize(
    ("pattern", "file"),
    [("src/**", "src/deep/a.py"), ("[ab].py", "a.py"), ("*.{js,ts}", "x.ts"), ("./a.py", "a.py")],
)
def test_w24_every_kind_of_pattern_matches(tmp_path: Path, pattern: str, file: str):
    write_rules(tmp_path, {"rule": make_rule_data(pattern)})

    assert load_rules(tmp_path).rules[0].include.matches(file)


def test_only_broken_rules_are_dropped_and_each_is_reported_with_its_line(tmp_path: Path):
    write_rules(
        tmp_path,
        f"""\
good:
{BODY}
bad:
  description: d
  match:
    include: ["/x", "**"]
  review:
    strategy: all
    instructions: i

also-good:
{BODY}""",
    )

    found = load_rules(tmp_path)

    assert [rule.name for rule in found.rules] == ["good", "also-good"]
    assert [(problem.file, problem.line) for problem in found.problems] == [
        (".deepreview", 9),
        (".deepreview", 11),
    ]
    assert found.problems[1].message.startswith("bad -> review -> strategy: 'all' is not known; ")


def test_a_broken_rule_file_does_not_hide_others(tmp_path: Path):
    write_rules(tmp_path, {"good": make_rule_data()})
    write_rules(tmp_path, "a: [", "src")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/.deepreview").write_bytes("a:\n  description: caf\xe9\n".encode("latin-1"))
    write_rules(tmp_path, "[" * 4000, "docs")

    found = load_rules(tmp_path, ".deepreview", "src/.deepreview", "lib/.deepreview", "docs/.deepreview")

    assert [rule.name for rule in found.rules] == ["good"]
    assert [(problem.file, problem.line) for problem in found.problems] == [
        ("docs/.deepreview", 1), ("lib/.deepreview", 2), ("src/.deepreview", 1),
    ]  # fmt: skip
    assert found.problems[1].message == "The text is not UTF-8; save the file as UTF-8."


NO_RULES = {
    "a list": ("- a\n- b\n", 1, "The file must be a mapping of rule names to rules"),
    "text": ("# hello\n\nhello\n", 3, "The file must be a mapping of rule names to rules"),
    "a number": ("5", 1, "The file must be a mapping of rule names to rules"),
    "a rule twice": (f"a:\n{BODY}a:\n{BODY}", 5, "The key 'a' occurs twice, first in line 1"),
    "two documents": (f"a:\n{BODY}---\nb:\n{BODY}", 5, "A second document begins here"),
    "bad YAML": ("a:\n\tb: c\n", 2, "cannot start any token"),
    "a tag": ("a: !!python/object:os.system x\n", 1, "The tag "),
    "a control character": ("a: \x01\n", 1, "The text contains a control character"),
    "too large": ("#" * (2**20 + 1), 1, "is larger than 1,048,576 bytes"),
}


@pytest.mark.parametrize("kind", NO_RULES)
def test_a_file_that_cannot_be_read_is_one_problem_with_its_line(tmp_path: Path, kind: str):
    content, line, said = NO_RULES[kind]

    [reported] = find_problems(tmp_path, content)

    assert reported.startswith(f".deepreview:{line}: ")
    assert said in reported


def test_a_rule_file_that_links_outside_the_project_is_not_read(tmp_path: Path):
    outside = write_rules(tmp_path / "outside", {"rule": make_rule_data()})
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.deepreview").symlink_to(outside)

    found = load_rules(tmp_path / "project")

    assert found.rules == ()
    assert "leads outside the project" in found.problems[0].message


def test_at_most_a_hundred_problems_are_reported(tmp_path: Path):
    write_rules(tmp_path, {f"rule{number}": 1 for number in range(3000)})

    assert len(load_rules(tmp_path).problems) == 100


def test_a_strange_name_is_shortened_and_escaped(tmp_path: Path):
    write_rules(tmp_path, {"\x1b[2J" + "x" * 500: 1, "ok": {"\x07": 1}})

    for problem in load_rules(tmp_path).problems:
        assert str(problem).isprintable()
        assert len(str(problem)) < 500


# Instructions from a file


def load_with_instructions(root: Path, name: str, folder: str = "") -> Any:
    write_rules(root, {"rule": make_rule_data(instructions={"file": name})}, folder)
    return load_rules(root, f"{folder}/.deepreview" if folder else ".deepreview")


@pytest.mark.parametrize("name", ["docs/how.md", "./docs/how.md", "src/../docs/how.md"])
def test_instructions_are_read_from_a_file_relative_to_the_rule(tmp_path: Path, name: str):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/how.md").write_text("\ufeff\nLook é.\n\n")

    assert [rule.instructions for rule in load_with_instructions(tmp_path, name).rules] == ["Look é."]


def test_instructions_may_be_anywhere_in_the_project(tmp_path: Path):
    (tmp_path / "how.md").write_text("Look.")

    assert [rule.instructions for rule in load_with_instructions(tmp_path, "../how.md", "src").rules] == [
        "Look."
    ]


def test_a_link_to_instructions_inside_the_project_is_followed(tmp_path: Path):
    (tmp_path / "how.md").write_text("Look.")
    (tmp_path / "link.md").symlink_to("how.md")

    assert [rule.instructions for rule in load_with_instructions(tmp_path, "link.md").rules] == ["Look."]


@pytest.mark.parametrize("name", ["../secret.md", "/etc/hostname", "link.md", "folder/secret.md"])
def test_j14_instructions_outside_the_project_are_not_read(tmp_path: Path, name: str):
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.md").write_text("the secret")
    (project / "link.md").symlink_to("../secret.md")
    (project / "folder").symlink_to("..")

    found = load_with_instructions(project, name)

    assert found.rules == ()
    assert "Instructions file not found or not usable: The path " in str(found.problems[0])
    assert "leads outside the project" in str(found.problems[0])


def test_a_missing_instructions_file_is_reported_with_its_line(tmp_path: Path):
    found = load_with_instructions(tmp_path, "none.md")

    assert str(found.problems[0]).startswith(
        ".deepreview:12: rule -> review -> instructions -> file: "
        "Instructions file not found or not usable: The path 'none.md' does not exist; "
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"caf\xe9", "is not UTF-8 text"), (b" \n", "is empty"), (b"x" * (2**20 + 1), "is larger than")],
)
def test_instructions_must_be_utf_8_text_that_is_neither_empty_nor_too_large(
    tmp_path: Path, content: bytes, said: str
):
    (tmp_path / "how.md").write_bytes(content)

    assert said in str(load_with_instructions(tmp_path, "how.md").problems[0])


def test_a_folder_in_place_of_instructions_is_refused(tmp_path: Path):
    assert "is not a regular file" in str(load_with_instructions(tmp_path, ".").problems[0])


# What has not changed is not read again


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened, in order."""
    opened: list[str] = []

    def record_read(root: Path, file: str, *, max_bytes: int) -> bytes:
        opened.append(file)
        return read_confined(root, file, max_bytes=max_bytes)

    monkeypatch.setattr("deepwork.kernel.files.definitions.read_confined", record_read)
    return opened


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, reads: list[str]):
    (tmp_path / "how.md").write_text("Look.")
    write_rules(tmp_path, {"rule": make_rule_data(instructions={"file": "how.md"})})
    time.sleep(0.03)  # until then the clock cannot tell a change from none
    catalog = RuleCatalog(tmp_path)

    first, second = catalog.load_rules([".deepreview"]), catalog.load_rules([".deepreview"])

    assert first == second
    assert reads == [".deepreview", "how.md"]


def test_a_changed_rule_file_is_detected_immediately(tmp_path: Path):
    catalog = RuleCatalog(tmp_path)

    for number in range(40):  # of the same length, and faster than the clock of the file system ticks
        write_rules(tmp_path, {"rule": make_rule_data(description=f"{number:02}")})
        assert catalog.load_rules([".deepreview"]).rules[0].description == f"{number:02}"


def test_a_changed_instructions_file_is_detected_immediately(tmp_path: Path):
    write_rules(tmp_path, {"rule": make_rule_data(instructions={"file": "how.md"})})
    catalog = RuleCatalog(tmp_path)

    assert "does not exist" in str(catalog.load_rules([".deepreview"]).problems[0])
    for number in range(10):
        (tmp_path / "how.md").write_text(f"Look {number}.")
        assert catalog.load_rules([".deepreview"]).rules[0].instructions == f"Look {number}."
    (tmp_path / "how.md").unlink()
    assert catalog.load_rules([".deepreview"]).rules == ()


def test_a_removed_rule_file_leaves_the_cache(tmp_path: Path):
    write_rules(tmp_path, {"rule": make_rule_data()})
    catalog = RuleCatalog(tmp_path)
    catalog.load_rules([".deepreview"])

    assert catalog.load_rules([]).rules == ()
    assert catalog._definitions._loaded == {}


@pytest.mark.parametrize(("seconds_ago", "is_reused"), [(0.0, False), (60.0, True)])
def test_a_cached_file_is_reused_only_when_the_clock_could_show_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str], seconds_ago: float, is_reused: bool
):
    now = time.time_ns()
    moment = now - int(seconds_ago * 1e9)
    monkeypatch.setattr("deepwork.kernel.files.definitions.time", SimpleNamespace(time_ns=lambda: now))
    monkeypatch.setattr("deepwork.kernel.files.definitions.find_stamp", lambda _: (moment, moment, 1, 1))
    write_rules(tmp_path, {"rule": make_rule_data()})
    catalog = RuleCatalog(tmp_path)

    catalog.load_rules([".deepreview"])
    catalog.load_rules([".deepreview"])

    assert len(reads) == (1 if is_reused else 2)
