"""The glob dialect: matching, invalid patterns, overlaps and running time."""

from __future__ import annotations

import os
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.globs import Globs, escape, find_problem, may_overlap
from effort import measure_effort

MATCHING = [
    ("README.md", "README.md"),
    ("*.md", "README.md"),
    ("*", ".gitignore"),
    (".*", ".gitignore"),
    ("*", "a\nb"),
    ("a*", "a"),
    ("src/*", "src/a.py"),
    ("src/*.py", "src/.py"),
    ("src/*/x", "src/a/x"),
    ("?.py", "a.py"),
    ("?.py", "é.py"),
    ("**", "a"),
    ("**", "a/b/c"),
    ("**/*", "a"),
    ("**/**", "a"),
    ("**/a", "a"),
    ("**/a", "x/y/a"),
    ("**/*.py", "a.py"),
    ("**/*.py", "src/deep/a.py"),
    ("src/**", "src/a"),
    ("src/**", "src/a/b/.c"),
    ("src/**/*.py", "src/a.py"),
    ("src/**/*.py", "src/x/y/a.py"),
    ("src/**/**/a", "src/a"),
    ("a/**/b/**/c", "a/b/c"),
    ("a/**/b/**/c", "a/b/x/b/y/c"),
    ("**/a/**/a/**/b", "a/a/b"),
    ("a**b**b", "abb"),
    ("*a*a", "aa"),
    ("**/a/b/**/c/d", "a/x/a/b/c/d"),
    ("src/**.py", "src/a.py"),
    ("src/**.py", "src/a/b.py"),
    ("**.py", "src/a/b.py"),
    ("a**b", "ab"),
    ("a**b", "a/b"),
    ("a**b", "ax/y/zb"),
    ("lib**/x", "lib/x"),
    ("lib**/x", "lib3/deep/x"),
    ("a***", "ab/c"),
    ("***/a", "a"),
    ("[ab].py", "b.py"),
    ("[a-c]x", "bx"),
    ("[!ab]", "c"),
    ("[^ab]", "c"),
    ("[]a]", "]"),
    ("[!]a]", "b"),
    ("[a-]", "-"),
    ("[-a]", "-"),
    (r"[\]\-]", "-"),
    (r"[\]\-]", "]"),
    ("[{,}]", ","),
    ("[*?]", "*"),
    ("[a^!]", "^"),
    ("[.-0]", "."),
    ("{a,b}.py", "b.py"),
    ("*.{py,md}", "x.md"),
    ("{src,tests}/**/*.py", "tests/x/a.py"),
    ("{a,b/{c,d/**}}", "b/d/e/f"),
    ("{a,b/{c,d/**}}", "b/c"),
    ("a{,.bak}", "a"),
    ("a{,.bak}", "a.bak"),
    ("{,src/}a", "a"),
    ("{,src/}a", "src/a"),
    ("{docs/,src/}", "src/a"),
    ("{a}", "a"),
    ("{[a,b],c}", ","),
    (r"{a\,b,c}", "a,b"),
    ("*{*,x}/a", "x/y/a"),
    ("a,b", "a,b"),
    (r"\*", "*"),
    (r"\[id\].tsx", "[id].tsx"),
    (r"\{a,b\}", "{a,b}"),
    (r"\\", "\\"),
    (r"\a", "a"),
    ("./src/*", "src/a"),
    ("./", "a/b"),
    ("docs/", "docs/a/b"),
    ("docs/*/", "docs/a/b"),
    ("(a|b)+$", "(a|b)+$"),
    ("...", "..."),
]
NOT_MATCHING = [
    ("README.md", "readme.md"),
    ("README.md", "docs/README.md"),
    ("README.md", "README.md\n"),
    ("README.md", "README.md5"),
    ("a.c", "abc"),
    ("*.md", "docs/README.md"),
    ("a*a", "a"),
    ("*/*", "a"),
    ("*/*", "a/b/c"),
    ("?", "/"),
    ("a?b", "a/b"),
    ("a[!x]b", "a/b"),
    ("a[.-0]b", "a/b"),
    ("src/**", "src"),
    ("src/**", "src/"),
    ("src/**", "srcs/a"),
    ("src/**", "a/src/b"),
    ("docs/", "docs"),
    ("docs/*/", "docs/a"),
    ("**/a", "xa"),
    ("**/a", "a/b"),
    ("a/**/b", "ab"),
    ("a/**/b", "a/xb"),
    ("a/**/b/*", "a/b/x/y"),
    ("lib**/x", "libx"),
    ("src/**.py", "src/a.pyc"),
    ("*.py", "src/a.py"),
    ("[ab]", "ab"),
    ("[ab]", "[ab]"),
    ("[a-c]x", "Bx"),
    ("{a,b}", "{a,b}"),
    ("{a,b}", "ab"),
    ("{[a,b],c}", "a,b"),
    (r"\*", "a"),
    ("**", ""),
]
UNREADABLE = [
    ("", "is empty"),
    ("{a,}", "has an alternative that is empty"),
    ("x" * 4097, "is longer than 4,096 characters"),
    ("a\0b", "contains a NUL"),
    ("/", "starts with a slash"),
    ("/abs/**", "starts with a slash; patterns are relative to the folder of their file"),
    ("{/a,b}", "starts with a slash"),
    ("{,src}/a", "starts with a slash"),
    ("C:/x", "starts with a drive"),
    ("c:\\x", "starts with a drive"),
    ("~/x", "starts with a drive or a home directory"),
    (".", "has . or .. as a name"),
    ("..", "has . or .. as a name"),
    ("a/../b", "has . or .. as a name"),
    ("./../b", "has . or .. as a name"),
    ("a/./b", "has . or .. as a name"),
    (r"a/\.\./b", "has . or .. as a name"),
    ("a/{..,b}/c", "has . or .. as a name"),
    ("a//b", "has two slashes in a row"),
    ("a//", "has two slashes in a row"),
    ("src/{a,}/b", "has two slashes in a row"),
    ("a\\", "ends with a backslash"),
    ("[ab", "has a [ without a ]"),
    ("[]", "has a [ without a ]"),
    ("[!]", "has a [ without a ]"),
    ("[^]", "has a [ without a ]"),
    ("{[a,b}", "has a [ without a ]"),
    ("ab]", "has a ] without a ["),
    ("[[:alpha:]]", "has a ] without a ["),
    ("{a,b", "has a { without a }"),
    ("{" * 4096, "has a { without a }"),
    ("a}", "has a } without a {"),
    ("{a,b}}", "has a } without a {"),
    ("[z-a]", "has the range 'z-a', which is reversed"),
    ("[a/b]", "has a slash between [ and ]"),
    ("{a,b}" * 10, "has more than 1,000 alternatives"),
    ("{,}" * 1000, "has more than 1,000 alternatives"),
    ("{" + "a," * 1000 + "a}", "has more than 1,000 alternatives"),
    ("{a,b}" * 8 + "[x]" * 2, "has more than 500 [...]"),
    ("{a,b}" * 9 + "x" * 1000, "is longer than 32,768 characters without its braces"),
]
OVERLAPPING = [
    ("src/a.py", "src/a.py"),
    ("src/a.py", "./src/a.py"),
    ("src/a.py", "src/**"),
    ("src/a.py", "src/"),
    ("src/*.py", "src/b*.py"),
    ("src/*a.py", "src/b*.py"),
    ("src/*/x", "src/y/*"),
    ("**/x", "src/**"),
    ("**", "a"),
    ("*a", "a*"),
    ("a?", "?b"),
    ("[a-m]", "[m-z]"),
    ("[!a]", "[!b]"),
    ("{a,b}", "{b,c}"),
    ("src/**.py", "src/x/*.py"),
    ("a**", "**b"),
    ("a/**/b", "a/b"),
    ("a/**/b/**/c", "a/*/*/c"),
    ("**/tests/**", "src/**/*.py"),
    (r"\[id\]", "[[]id[]]"),
]
APART = [
    ("src/a.py", "src/b.py"),
    ("src/a", "src/a.py"),
    ("src", "src/**"),
    ("docs/**", "src/**"),
    ("src/*.py", "src/x/a.py"),
    ("src/*.py", "src/*.md"),
    ("src/**/*.py", "src/**/*.md"),
    ("src/*.py", "src/*/*.py"),
    ("*", "*/*"),
    ("*", "*/**"),
    ("*/", "*"),
    ("?", "??"),
    ("a*b", "a*c"),
    ("a*x?", "*y?"),
    ("[a-m]", "[n-z]"),
    ("[!a]", "a"),
    ("a?b", "a/b"),
    ("[.-0]x", "**/x"),
    ("{a,b}", "{c,d}/**"),
    ("{a,b}/*", "{c,d}/*"),
    ("a/**/b", "ab"),
    ("**/a", "**/b"),
    ("**/a/*", "**/b/*"),
    ("**/a/?", "**/b/*/**/?x"),
    ("src/**.py", "src/**.md"),
    (r"\*", "a"),
]
# Each takes a backtracking matcher practically forever.
HOSTILE = [
    "*a" * 2000 + "b",
    "**/" + "*a" * 2000 + "b",
    "**/" + "*a*/" * 800 + "b",
    "**/*a/" * 600 + "b",
    "**a" * 1300 + "b",
    "**a*" * 1000 + "b",
    "**/" + "*/" * 2000 + "b",
    "*/" * 2000 + "b",
    "**x/**/" + "*/" * 1000 + "b/**y",
    "**" + "a" * 2000 + "*" + "a" * 2000 + "b",
    "*" + "a" * 2000 + "b*c",
    "?*" * 2000 + "b",
    "[ab]*" * 500 + "c",
    "{*a,*b,*c}" * 6 + "d",
]


@pytest.mark.parametrize(("pattern", "path"), MATCHING)
def test_a_pattern_matches(pattern: str, path: str) -> None:
    assert find_problem(pattern) is None
    assert Globs([pattern]).matches(path)
    assert may_overlap(pattern, pattern)


@pytest.mark.parametrize(("pattern", "path"), NOT_MATCHING)
def test_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert find_problem(pattern) is None
    assert not Globs([pattern]).matches(path)


def test_a_star_stays_within_one_directory() -> None:
    paths = ["a.py", "src/a.py", "src/deep/a.py"]

    assert Globs(["src/*.py"]).filter(paths) == ["src/a.py"]


def test_patterns_that_once_silently_matched_nothing_match_or_are_refused() -> None:
    paths = ["a/x", "b/x", "src/a", "src/b/c"]

    assert Globs(["[ab]/x"]).filter(paths) == ["a/x", "b/x"]
    assert Globs(["{a,b}/x"]).filter(paths) == ["a/x", "b/x"]
    assert Globs(["src/**"]).filter(paths) == ["src/a", "src/b/c"]
    assert find_problem("/src/**") == "starts with a slash; patterns are relative to the folder of their file"


def test_any_of_several_patterns_may_match_and_the_order_of_the_paths_stays() -> None:
    globs = Globs(["docs/**", "*.md", "z.py", "docs/a.md"])

    assert globs.filter(["z.py", "README.md", "src/a.py", "docs/a.md"]) == ["z.py", "README.md", "docs/a.md"]


def test_an_empty_list_of_patterns_matches_nothing() -> None:
    assert Globs([]).filter(["a", ""]) == []


def test_a_name_that_is_not_utf_8_is_matched_like_any_other() -> None:
    path = os.fsdecode(b"src/\xff\xfe.py")

    assert Globs(["src/*.py"]).matches(path)
    assert Globs(["src/??.py"]).matches(path)
    assert Globs(["src/[!a]*.py"]).matches(path)
    assert Globs(["src/[\udc00-\udcff]?.py"]).matches(path)
    assert Globs([path]).matches(path)
    assert may_overlap(path, "src/**")


@pytest.mark.parametrize(("pattern", "clause"), UNREADABLE)
def test_an_invalid_pattern_is_explained_with_a_fix(pattern: str, clause: str) -> None:
    said = find_problem(pattern)

    assert said is not None
    assert said.startswith(clause)
    assert "; " in said


def test_an_invalid_pattern_is_refused_wherever_it_is_used() -> None:
    for use in (lambda: Globs(["a", "/b"]), lambda: may_overlap("/b", "a")):
        with pytest.raises(InvalidInput) as refused:
            use()
        assert refused.value.code == Code.INVALID_INPUT
        assert refused.value.message.startswith("The pattern '/b' starts with a slash; ")


def test_a_refusal_repeats_only_the_start_of_a_long_pattern_and_can_be_printed() -> None:
    with pytest.raises(InvalidInput) as refused:
        Globs(["\udcff" * 5000])

    assert len(refused.value.message.encode()) < 1400


@pytest.mark.parametrize(
    "pattern", ["x" * 4096, "{a,b}" * 9, "{" * 1000 + "a" + "}" * 1000, "{,a}" * 9 + "b"]
)
def test_a_large_pattern_within_the_limits_can_be_read(pattern: str) -> None:
    assert find_problem(pattern) is None


@pytest.mark.parametrize(("one", "other"), OVERLAPPING)
def test_patterns_that_one_path_can_match_overlap(one: str, other: str) -> None:
    assert may_overlap(one, other)
    assert may_overlap(other, one)


@pytest.mark.parametrize(("one", "other"), APART)
def test_patterns_that_share_no_path_do_not_overlap(one: str, other: str) -> None:
    assert not may_overlap(one, other)
    assert not may_overlap(other, one)


@pytest.mark.parametrize("pattern", HOSTILE, ids=lambda pattern: pattern[:20])
def test_a_hostile_pattern_is_answered_quickly(pattern: str) -> None:
    globs = Globs([pattern])
    paths = ["a" * 4000, "a/" * 2000 + "a", "x/" * 2000 + "a", ("a" * 40 + "/") * 100 + "a"]

    matched: list[bool] = []

    effort = measure_effort(lambda: matched.extend(globs.matches(path) for path in paths), enough=500)

    assert not any(matched)
    assert effort < 500


def test_the_overlap_check_of_hostile_patterns_stops_quickly() -> None:
    pairs = [("**a*" * 1000, "**/" + "*/" * 2000), ("*a" * 2000, "?*" * 2000), ("**/*a/" * 600, "**a" * 1300)]

    assert all(may_overlap(one, other) for one, other in pairs)
    assert measure_effort(lambda: [may_overlap(one, other) for one, other in pairs], enough=1000) < 1000


def test_ten_thousand_paths_are_matched_quickly() -> None:
    globs = Globs(["src/**/*.py", "tests/**", "*.md"])
    paths = [f"src/deepwork/slice_{number % 40}/module_{number}.py" for number in range(10_000)]

    assert len(globs.filter(paths)) == len(paths)
    assert measure_effort(lambda: globs.filter(paths), enough=100) < 100


PIECES = [
    "a",
    "b",
    ".",
    "/",
    "*",
    "**",
    "**/",
    "/**",
    "?",
    "[ab]",
    "[!a]",
    "{a,b}",
    "{,/a}",
    "{*,b/{a,**}}",
    r"\*",
]
PATTERNS = (
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5)
    .map("".join)
    .filter(lambda p: not find_problem(p))
)
PATHS = st.lists(st.text("ab.*", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)
SHORT_PATHS = [
    path
    for length in range(1, 5)
    for path in map("".join, product("ab/", repeat=length))
    if all(path.split("/"))
]


@settings(max_examples=300, deadline=None)
@given(st.lists(PATTERNS, max_size=2), st.lists(PATHS, max_size=10))
def test_matching_agrees_with_a_naive_matcher(patterns: list[str], odd_paths: list[str]) -> None:
    paths = SHORT_PATHS + odd_paths
    expected = [path for path in paths if any(match_naively(pattern, path) for pattern in patterns)]

    assert Globs(patterns).filter(paths) == expected


@settings(max_examples=300, deadline=None)
@given(PATTERNS, PATTERNS)
def test_patterns_that_share_a_path_overlap(one: str, other: str) -> None:
    shared = Globs([other]).filter(Globs([one]).filter(SHORT_PATHS))

    assert may_overlap(one, other) or not shared
    assert may_overlap(one, other) == may_overlap(other, one)


def match_naively(pattern: str, path: str) -> bool:
    """Match in the simplest way, by trying everything."""
    whole = (text + "**" * text.endswith("/") for text in expand_choices(pattern))
    return any(try_match(text.removeprefix("./"), path) for text in whole)


def expand_choices(pattern: str) -> list[str]:
    """Expand the braces, the innermost last one first."""
    start = pattern.rfind("{")
    if start < 0:
        return [pattern]
    end = pattern.index("}", start)
    before, after = pattern[:start], pattern[end + 1 :]
    return [
        text
        for choice in pattern[start + 1 : end].split(",")
        for text in expand_choices(before + choice + after)
    ]


def try_match(pattern: str, path: str, at_name: bool = True) -> bool:
    """Return whether the pattern matches the whole path; `at_name`: the pattern is at the start of a name."""
    if not pattern:
        return not path
    if pattern.startswith("**"):
        return try_deep_match(pattern.lstrip("*"), path, at_name)
    if pattern[0] == "*":
        whole_name = at_name and pattern[1:2] in ("", "/")
        length = len(path.partition("/")[0])
        return any(try_match(pattern[1:], path[n:], False) for n in range(whole_name, length + 1))
    one, rest = split_first(pattern)
    return path[:1] != "" and path[0] in one and try_match(rest, path[1:], pattern[0] == "/")


def try_deep_match(rest: str, path: str, at_name: bool) -> bool:
    if at_name and not rest:
        return path != ""
    if at_name and rest[0] == "/":
        return any(try_match(rest[1:], path[n:]) for n in range(len(path)) if n == 0 or path[n - 1] == "/")
    return any(try_match(rest, path[n:], False) for n in range(len(path) + 1))


def split_first(pattern: str) -> tuple[str, str]:
    """Return the characters that the first element of the pattern matches, and the rest."""
    for written, allowed in {"?": "ab.*", "[ab]": "ab", "[!a]": "b.*", r"\*": "*"}.items():
        if pattern.startswith(written):
            return allowed, pattern[len(written) :]
    return pattern[0], pattern[1:]


def test_an_escaped_name_matches_itself_and_nothing_else():
    name = r"app/[id]/{a,b}*?\.tsx"

    assert Globs([escape(name)]).matches(name)
    assert not Globs([escape(name)]).matches("app/i/a.tsx")
