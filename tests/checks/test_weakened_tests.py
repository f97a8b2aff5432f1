"""What a patch does to tests, by language: what is named, and what is not because it says as much as before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deepwork.gates.checks.weakened_tests import WeakeningKind, find_weakened_tests

LANGUAGES = {
    "py": ("tests/test_sums.py", "def test_sum():\n    x = add(1, 2)\n    assert x == 3\n    assert x > 0\n"),
    "unittest": ("sums_test.py", "class TestSums(TestCase):\n    def test_sum(self):\n        self.assertEqual(add(1, 2), 3)\n        self.assertTrue(add(1, 1))\n"),
    "ts": ("src/sums.test.ts", 'describe("sums", () => {\n  it("adds", () => {\n    expect(add(1, 2)).toBe(3);\n    expect(add(1, 1)).toBe(2);\n  });\n});\n'),
    "go": ("sums_test.go", "func TestSum(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal(1)\n\t}\n\tassert.Equal(t, 2, add(1, 1))\n}\n"),
    "rs": ("src/sums.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n    assert!(add(1, 1) == 2);\n}\n"),
    "java": ("src/test/java/SumsTest.java", "@Test\nvoid adds() {\n  assertEquals(3, add(1, 2));\n  assertThat(add(1, 1)).isEqualTo(2);\n}\n"),
}  # fmt: skip


def diff(folder: Path, before: dict[str, str], after: dict[str, str]) -> str:
    """Return the patch between two versions of some files, as git writes it."""
    old, new = folder / "old", folder / "new"
    for root, files in ((old, before), (new, after)):
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "old", "new"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    # As between two trees of a repository: the same name on both sides.
    text = done.stdout.replace("rename from old/", "rename from ").replace("rename to new/", "rename to ")
    text = text.replace("old/", "a/").replace("new/", "b/")
    return text.replace("--- a/dev/null", "--- /dev/null").replace("+++ b/dev/null", "+++ /dev/null")


def judge(folder: Path, before: dict[str, str], after: dict[str, str]) -> list[tuple[str, int]]:
    return [(each.kind.value, each.count) for each in find_weakened_tests(diff(folder, before, after))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_assertion_that_is_gone_is_named(tmp_path: Path, language: str):
    path, text = LANGUAGES[language]
    lines = text.splitlines(keepends=True)
    [at] = [at for at, line in enumerate(lines) if "add(1, 1)" in line or "x > 0" in line]

    [found] = find_weakened_tests(
        diff(tmp_path, {path: text}, {path: "".join([*lines[:at], *lines[at + 1 :]])})
    )

    assert (found.kind, found.path, found.count) == (WeakeningKind.ASSERTIONS_REMOVED, path, 1)
    assert found.lines == (("old", at + 1, lines[at].strip()),)


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_assertion_that_became_a_comment_is_gone(tmp_path: Path, language: str):
    path, text = LANGUAGES[language]
    mark = "# " if path.endswith(".py") else "// "
    lines = [
        mark + line if "add(1, 1)" in line or "x > 0" in line else line for line in text.splitlines(True)
    ]

    assert judge(tmp_path, {path: text}, {path: "".join(lines)}) == [("assertions_removed", 1)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_deleted_file_of_tests_is_named(tmp_path: Path, language: str):
    path, text = LANGUAGES[language]
    path = path.replace("src/sums.rs", "tests/sums.rs")

    [(kind, count)] = judge(tmp_path, {path: text, "kept": "1"}, {"kept": "1"})

    assert (kind, count >= 1) == ("test_file_deleted", True)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_of_tests_that_moved_says_as_much_as_before(tmp_path: Path, language: str):
    path, text = LANGUAGES[language]

    assert judge(tmp_path, {path: text}, {f"tests/moved/{path}": text}) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_new_tests_are_no_weakening(tmp_path: Path, language: str):
    path, text = LANGUAGES[language]

    assert judge(tmp_path, {"kept": "1"}, {path: text, "kept": "1"}) == []


@pytest.mark.parametrize(
    ("path", "line", "kind"),
    [
        ("tests/test_a.py", "@pytest.mark.skip(reason='slow')", "tests_skipped"),
        ("tests/test_a.py", "@pytest.mark.xfail", "tests_skipped"),
        ("tests/test_a.py", "    pytest.skip('later')", "tests_skipped"),
        ("tests/test_a.py", "    @unittest.skipIf(True, '')", "tests_skipped"),
        ("tests/test_a.py", "        self.skipTest('later')", "tests_skipped"),
        ("tests/conftest.py", "pytestmark = pytest.mark.skip", "tests_skipped"),
        ("tests/test_a.py", "    assert True", "always_true"),
        ("tests/test_a.py", "    assert (x == 3, 'three')", "always_true"),
        ("a.test.ts", "it.skip('adds', () => {", "tests_skipped"),
        ("a.test.ts", "xit('adds', () => {", "tests_skipped"),
        ("a.spec.js", "test.todo('adds')", "tests_skipped"),
        ("a.test.tsx", "  it.only('adds', () => {", "others_left_out"),
        ("a.test.tsx", "fdescribe('sums', () => {", "others_left_out"),
        ("a.test.ts", "  expect(true).toBe(true);", "always_true"),
        ("a_test.go", "\tt.Skip()", "tests_skipped"),
        ("a_test.go", "\tassert.True(t, true)", "always_true"),
        ("src/a.rs", "    #[ignore]", "tests_skipped"),
        ("tests/a.rs", '#[ignore = "slow"]', "tests_skipped"),
        ("tests/a.rs", "    assert!(true);", "always_true"),
        ("src/test/java/ATest.java", '  @Disabled("later")', "tests_skipped"),
        ("src/test/java/ATest.java", "  @Ignore", "tests_skipped"),
        ("src/test/kotlin/ATest.kt", "    assumeTrue(isSlow)", "tests_skipped"),
        ("src/test/java/ATest.java", "    assertTrue(true);", "always_true"),
    ],
)
def test_a_line_that_lets_tests_say_less_is_named(tmp_path: Path, path: str, line: str, kind: str):
    before, after = "one\n", f"one\n{line}\n"

    assert judge(tmp_path, {path: before}, {path: after}) == [(kind, 1)]


def test_a_test_that_is_gone_is_named_with_its_assertions(tmp_path: Path):
    two = "def test_a():\n    assert a\n\n\ndef test_b():\n    assert b\n"

    found = judge(tmp_path, {"tests/test_x.py": two}, {"tests/test_x.py": two.partition("\n\n\ndef")[0]})

    assert found == [("tests_deleted", 1), ("assertions_removed", 1)]


def test_a_test_under_another_name_is_named_too(tmp_path: Path):
    before = "def test_a():\n    assert a == 1\n"
    after = "def test_nothing():\n    assert b == 2\n"

    [found] = find_weakened_tests(diff(tmp_path, {"tests/test_x.py": before}, {"tests/test_x.py": after}))

    assert (found.kind, found.lines) == (WeakeningKind.TESTS_REPLACED, (("old", 1, "def test_a():"),))


def test_an_assertion_that_cannot_fail_replaces_none(tmp_path: Path):
    before, after = "def test_a():\n    assert a == 1\n", "def test_a():\n    assert True\n"

    found = judge(tmp_path, {"test_x.py": before}, {"test_x.py": after})

    assert found == [("always_true", 1), ("assertions_removed", 1)]


def test_a_changed_assertion_and_a_moved_one_are_no_weakening(tmp_path: Path):
    before = {"tests/test_a.py": "def test_a():\n    assert a == 1\n    assert b\n", "tests/test_b.py": "def test_b():\n    assert c\n"}  # fmt: skip
    after = {"tests/test_a.py": "def test_a():\n    assert a == 2\n", "tests/test_b.py": "def test_b():\n    assert c\n    assert b\n"}  # fmt: skip

    assert judge(tmp_path, before, after) == []


def test_an_assertion_that_moved_out_of_the_tests_is_gone(tmp_path: Path):
    before = {"tests/test_a.py": "def test_a():\n    assert b\n", "a.py": "1\n"}
    after = {"tests/test_a.py": "def test_a():\n", "a.py": "1\n    assert b\n"}

    assert judge(tmp_path, before, after) == [("assertions_removed", 1)]


def test_code_that_is_no_test_is_not_judged(tmp_path: Path):
    before = {"src/app.py": "assert ready\ndef test_mode(): pass\n", "src/app.ts": "assert(ready);\n"}

    assert judge(tmp_path, before, {"src/app.py": "1\n", "src/app.ts": "1\n"}) == []


def test_lines_that_look_like_headers_hide_nothing(tmp_path: Path):
    """`++ b/x` is `+++ b/x` when it is added: the name of the file stays as it was."""
    before = "def test_a():\n    assert a\n    assert b\n"
    after = "def test_a():\n++ b/README.md\n-- a/README.md\ndiff --git a/x b/x\n    assert a\n"

    assert judge(tmp_path, {"tests/test_a.py": before}, {"tests/test_a.py": after}) == [
        ("assertions_removed", 1)
    ]


def test_a_patch_that_was_cut_says_what_is_left_of_it(tmp_path: Path):
    patch = diff(tmp_path, {"tests/test_a.py": "assert a\nassert b\n"}, {"tests/test_a.py": "1\n"})

    [found] = find_weakened_tests(patch[: patch.index("-assert b") + 5])

    assert found.count == 1


def test_guarded_files_come_first():
    [found] = find_weakened_tests("", guarded=[".deepwork/checks.yml"])

    assert (found.kind, found.path) == (WeakeningKind.GUARDED_FILE, ".deepwork/checks.yml")


@pytest.mark.parametrize("path", ["tests/rates_off.py", "tests/test_rates.py.txt"])
def test_a_file_of_tests_under_a_name_that_never_runs_is_lost(tmp_path: Path, path: str):
    text = LANGUAGES["py"][1]

    found = find_weakened_tests(diff(tmp_path, {"tests/test_rates.py": text}, {path: text}))

    assert [(each.kind, each.path) for each in found] == [("test_file_deleted", "tests/test_rates.py")]


def test_a_rename_that_git_recognized_is_judged_by_its_names():
    rename = "diff --git a/{0} b/{1}\nsimilarity index 100%\nrename from {0}\nrename to {1}\n"

    kept = find_weakened_tests(rename.format("tests/test_a.py", "tests/deep/test_a.py"))
    [lost] = find_weakened_tests(rename.format("a.test.ts", "a.off.ts"))

    assert kept == []
    assert (lost.kind, lost.path) == (WeakeningKind.TEST_FILE_DELETED, "a.test.ts")
