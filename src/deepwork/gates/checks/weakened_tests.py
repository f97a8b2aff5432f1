"""Finds in a patch what makes tests say less: fewer assertions, deleted or skipped tests, guarded files.

It reads lines, not programs: it points a person at lines to look at, and decides nothing. So it rather names
one line too many. Lines that only moved, also to another file of the patch, are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from deepwork.kernel.git.patches import PatchFile, read_changed_lines
from deepwork.kernel.records import dataclass

MAX_TEXT = 200
_MAX_LINES = 5
"""Lines that one entry quotes."""
_MAX_READ = 1000
"""Characters of a line that are looked at: a line can be as long as its file."""


class WeakeningKind(StrEnum):
    """What makes tests say less."""

    TEST_FILE_DELETED = "test_file_deleted"
    TESTS_DELETED = "tests_deleted"
    TESTS_REPLACED = "tests_replaced"  # as many others came: renamed, or other tests
    TESTS_SKIPPED = "tests_skipped"  # skipped, expected to fail, or ignored
    OTHERS_LEFT_OUT = "others_left_out"  # `only`: the tests beside it do not run
    ASSERTIONS_REMOVED = "assertions_removed"
    ALWAYS_TRUE = "always_true"  # an assertion that cannot fail
    GUARDED_FILE = "guarded_file"  # it decides whether checks pass


class QuotedLine(NamedTuple):
    """A line of the patch: its side (`old` or `new`), its number there, and its text."""

    side: str
    line: int
    text: str


@dataclass(frozen=True)
class Weakening:
    """What makes the tests of one file say less."""

    kind: WeakeningKind
    path: str
    count: int
    lines: tuple[QuotedLine, ...] = ()
    """The first lines that show it."""


class _Language(NamedTuple):
    """How the tests of a language look, line by line."""

    files: re.Pattern[str]
    """Which paths are tests. In other files only what tests alone have counts."""
    comment: re.Pattern[str]
    assertion: re.Pattern[str]
    test: re.Pattern[str]
    """The first line of a test; its last group is the name, if the line has one."""
    skip: re.Pattern[str]
    always_true: re.Pattern[str]
    only: re.Pattern[str] | None = None
    run: re.Pattern[str] | None = None
    """Which of these paths runners of tests find by their names; None: all."""


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


_C_COMMENT = re.compile(r"\s*(//|/\*|\*)")
_NEVER = re.compile(r"(?!)")
_TEST_FOLDER = r"(^|/)(tests?|__tests__|specs?|testing)/"
_PYTHON = _Language(
    files=_pattern(_TEST_FOLDER, r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.pyi?$"),
    run=re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.py$"),
    comment=re.compile(r"\s*#"),
    assertion=_pattern(
        r"^\s*assert\b",
        r"^\s*(?:self|cls|\w+)\.(?:assert\w+|fail(?:If|Unless)\w*)\s*\(",
        r"\bpytest\.(?:raises|warns|approx)\s*\(",
        r"^\s*(?:\w+\.)*testing\.assert_\w+\s*\(",
    ),
    test=_pattern(r"^\s*(?:async\s+)?def\s+(test\w*)\s*\(", r"^\s*class\s+(Test\w*)\b"),
    skip=_pattern(
        r"\bpytest\.mark\.(?:skip|skipif|xfail)\b",
        r"\bpytest\.(?:skip|xfail|importorskip)\s*\(",
        r"\bunittest\.(?:skip\w*|expectedFailure)\b",
        r"^\s*@(?:skip\w*|expectedFailure)\b",
        r"\.skipTest\s*\(",
        r"\braise\s+(?:\w+\.)?SkipTest\b",
        r"^\s*__test__\s*=\s*False\b",
    ),
    always_true=_pattern(
        r"^\s*assert\s+(?:True|1|not\s+False)\s*(?:,|#|$)",
        r"\.assertTrue\s*\(\s*True\s*[,)]",
        r"^\s*assert\s*\([^()]+,\s*['\"]",
    ),
)
_SCRIPT = _Language(
    files=_pattern(_TEST_FOLDER, r"\.(test|spec|e2e|cy)\.[cm]?[jt]sx?$"),
    run=re.compile(r"(^|/)__tests__/|\.(test|spec|e2e|cy)\.[cm]?[jt]sx?$"),
    comment=_C_COMMENT,
    assertion=_pattern(
        r"\bexpect(?:TypeOf)?\s*\(",
        r"\bassert(?:\.\w+)*\s*\(",
        r"\.should\b",
        r"\bt\.(?:is|not|deepEqual|truthy|falsy|throws|equal|ok|same)\w*\s*\(",
    ),
    test=re.compile(r"^\s*(?:it|test|describe|specify)(?:\.\w+)*\s*(?:\([^)]*\)\s*)?\(\s*['\"`](.*?)['\"`]"),
    skip=_pattern(
        r"\b(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.(?:skip|skipIf|todo|fails|failing|fixme)\b",
        r"\b(?:xit|xtest|xdescribe|xcontext)\s*\(",
        r"\bthis\.skip\s*\(",
        r"\bt\.skip\s*\(",
    ),
    always_true=_pattern(
        r"\bexpect\s*\(\s*(true|1)\s*\)\.(?:toBe|toEqual|toBeTruthy|to\.)",
        r"\bassert(?:\.ok)?\s*\(\s*true\s*[,)]",
    ),
    only=_pattern(
        r"\b(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.only\b", r"^\s*(?:fit|fdescribe)\s*\("
    ),
)
_GO = _Language(
    files=re.compile(r"_test\.go$"),
    comment=_C_COMMENT,
    assertion=_pattern(
        r"\b(?:t|b|tb|f)\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(",
        r"\b(?:assert|require|is)\.\w+\s*\(",
    ),
    test=_pattern(r"^func\s+(?:\([^)]*\)\s*)?((?:Test|Fuzz|Example)\w*)\s*\(", r"\bt\.Run\s*\(\s*\"(.*?)\""),
    skip=re.compile(r"\b(?:t|b|tb|f|s\.T\(\))\.(?:Skip|Skipf|SkipNow)\s*\("),
    always_true=re.compile(r"\b(?:assert|require)\.True\s*\(\s*\w+\s*,\s*true\s*[,)]"),
)
_RUST = _Language(
    files=_pattern(r"(^|/)(tests|benches)/", r"(^|/)tests?\.rs$", r"_tests?\.rs$"),
    comment=_C_COMMENT,
    assertion=re.compile(r"\b(?:debug_|prop_)?assert(?:_\w+)?!"),
    test=re.compile(r"^\s*#\[(?:\w+::)*(?:test|test_case|rstest|proptest|quickcheck)\b"),
    skip=_pattern(r"^\s*#\[(?:cfg_attr\(.*,\s*)?ignore\b", r"^\s*#\[should_panic\b"),
    always_true=re.compile(r"\bassert!\s*\(\s*true\s*[,)]"),
)
_JAVA = _Language(
    files=_pattern(r"(^|/)src/(\w*[tT]est\w*)/", r"(^|/)\w*(?:Tests?|IT|Spec)\.(?:java|kt|groovy|scala)$"),
    comment=_C_COMMENT,
    assertion=_pattern(
        r"\b[aA]ssert(?:\w*\.)?\w*\s*\(",
        r"\bverify\w*\s*\(",
        r"^\s*assert\s",
        r"\bshould(?:Be|Throw|Have|Not)\w*\b",
    ),
    test=re.compile(r"^\s*@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b"),
    skip=_pattern(
        r"^\s*@(?:\w+\.)*(?:Disabled\w*|Ignore\w*)\b",
        r"\b(?:Assumptions|Assume)\.\w+\s*\(",
        r"\bassume(?:True|False|That|NotNull)\s*\(",
    ),
    always_true=re.compile(r"\bassertTrue\s*\(\s*(?:\".*?\"\s*,\s*)?true\s*[,)]"),
)
_LANGUAGES = {
    **dict.fromkeys(("py", "pyi"), _PYTHON),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), _SCRIPT),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "kt", "kts", "groovy", "scala"), _JAVA),
}
_WITH_INLINE_TESTS = (_RUST,)
"""Languages whose tests stand in the files that they test."""


def find_weakened_tests(patch: str, guarded: Collection[str] = ()) -> list[Weakening]:
    """Find what makes tests say less in a patch; `guarded` are changed files that decide about checks."""
    files = read_changed_lines(patch)
    moved = _count_moved(files)
    found = [each for file in files for each in _judge_file(file, moved)]
    lost = [Weakening(WeakeningKind.TEST_FILE_DELETED, path, 1) for path in _list_lost(files)]
    return [*(Weakening(WeakeningKind.GUARDED_FILE, path, 1) for path in sorted(guarded)), *lost, *found]


def _list_lost(files: Sequence[PatchFile]) -> Iterator[str]:
    """List the files of tests that got names under which they do not run, although no line is lost."""
    homes = [file for file in files if file.added and _is_run(file.path)]
    for file in files:
        if file.renamed_from is not None:
            if _is_run(file.renamed_from) and not _is_run(file.path):
                yield file.renamed_from
        elif file.is_deleted and _is_run(file.path) and not homes and _find_elsewhere(file, files):
            yield file.path


def _find_elsewhere(file: PatchFile, files: Sequence[PatchFile]) -> bool:
    """Whether all lines of a deleted file are in others: then nothing else says that it is gone."""
    others = Counter(text.strip() for other in files for _, text in other.added if _find_tests(other.path))
    own = Counter(text.strip() for _, text in file.removed if text.strip())
    return bool(own) and not own - others


def is_test_file(path: str) -> bool:
    """Whether a path is one of tests, as far as its name says so."""
    language = _find_language(path)
    return language is not None and language.files.search(path) is not None


def _find_language(path: str) -> _Language | None:
    return _LANGUAGES.get(path.rpartition(".")[2].lower())


def _find_tests(path: str) -> _Language | None:
    """Return the language of a file that may have tests."""
    language = _find_language(path)
    return language if is_test_file(path) or language in _WITH_INLINE_TESTS else None


class _Moved:
    """The lines that are removed at one place of a patch and added at another, and how often."""

    def __init__(self, removed: Counter[str], added: Counter[str]) -> None:
        both = removed & added
        self._left = {"old": Counter(both), "new": Counter(both)}

    def take(self, side: str, text: str) -> bool:
        """Return whether this line only moved, and count it."""
        key, left = text.strip(), self._left[side]
        if left[key] <= 0:
            return False
        left[key] -= 1
        return True


def _count_moved(files: Sequence[PatchFile]) -> _Moved:
    tests = [file for file in files if _find_tests(file.path)]
    removed = Counter(text.strip() for file in tests for _, text in file.removed)
    return _Moved(removed, Counter(text.strip() for file in tests for _, text in file.added))


def _is_run(path: str) -> bool:
    """Whether runners of tests find a file by its name: another name beside them never runs."""
    language = _find_language(path)
    if language is None or not is_test_file(path):
        return False
    return (language.run or language.files).search(path) is not None


def _judge_file(file: PatchFile, moved: _Moved) -> Iterator[Weakening]:
    language = _find_tests(file.path)
    if language is None:
        return
    old = [each for each in _quote("old", file.removed, language) if not moved.take("old", each.text)]
    new = [each for each in _quote("new", file.added, language) if not moved.take("new", each.text)]
    if file.is_deleted and is_test_file(file.path):
        if any(each.text.strip() for each in old):  # else its lines are in another file now
            tests = _select(old, language.test)
            yield _build(WeakeningKind.TEST_FILE_DELETED, file, max(1, len(tests)), tests)
        return
    yield from _compare_tests(file, language, old, new)
    for kind, pattern in (
        (WeakeningKind.TESTS_SKIPPED, language.skip),
        (WeakeningKind.OTHERS_LEFT_OUT, language.only or _NEVER),
        (WeakeningKind.ALWAYS_TRUE, language.always_true),
    ):
        if matching := _select(new, pattern):
            yield _build(kind, file, len(matching), matching)
    gone = _select(old, language.assertion)
    real = [each for each in _select(new, language.assertion) if not language.always_true.search(each.text)]
    if len(gone) > len(real):
        yield _build(WeakeningKind.ASSERTIONS_REMOVED, file, len(gone) - len(real), gone)


def _compare_tests(
    file: PatchFile, language: _Language, old: Sequence[QuotedLine], new: Sequence[QuotedLine]
) -> Iterator[Weakening]:
    gone, come = _select(old, language.test), _select(new, language.test)
    named = {name for each in come if (name := _find_name(each, language))}
    lost = [each for each in gone if (name := _find_name(each, language)) is None or name not in named]
    if len(gone) > len(come):
        yield _build(WeakeningKind.TESTS_DELETED, file, len(gone) - len(come), lost)
    elif replaced := [each for each in lost if _find_name(each, language)]:
        yield _build(WeakeningKind.TESTS_REPLACED, file, len(replaced), replaced)


def _find_name(line: QuotedLine, language: _Language) -> str | None:
    found = language.test.search(line.text)
    return next((group for group in found.groups() if group), None) if found else None


def _quote(side: str, lines: Sequence[tuple[int, str]], language: _Language) -> Iterator[QuotedLine]:
    """Quote the lines that are no comments: a test or an assertion that became one does not run."""
    for number, text in lines:
        if not language.comment.match(text):
            yield QuotedLine(side, number, text[:_MAX_READ])


def _select(lines: Sequence[QuotedLine], pattern: re.Pattern[str]) -> list[QuotedLine]:
    return [each for each in lines if pattern.search(each.text)]


def _build(kind: WeakeningKind, file: PatchFile, count: int, lines: Sequence[QuotedLine]) -> Weakening:
    quoted = tuple(each._replace(text=each.text.strip()[:MAX_TEXT]) for each in lines[:_MAX_LINES])
    return Weakening(kind, file.path, count, quoted)
