"""No spelling lets a command run that no person trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from application import make_app
from checks.make import COUNT, Project, run_git, shell
from deepwork.edge.cli.main import deepwork
from deepwork.gates.checks.models import build_trusted_definitions
from deepwork.kernel.errors import Code, DeepworkError, GateClosed
from deepwork.kernel.user_settings import Kind, open_trust_store

TRUSTED = "checks:\n  tests: {run: [sh, -c, 'true'], needs: ['src/**']}\nguarded: ['tests/**']\n"
EVIL = shell(COUNT)
EVIL_FILE = f"checks:\n  tests: {{run: {EVIL}, needs: ['src/**']}}\nguarded: ['tests/**']\n"

# What the base says instead: each differs from what was trusted, however little.
AT_THE_BASE = {
    "another-command": EVIL_FILE,
    "one-more-word": TRUSTED.replace("'true']", "'true', x]"),
    "one-more-space": TRUSTED.replace("'true'", "'true '"),
    "a-tab": TRUSTED.replace("'true'", '"true\\t"'),
    "a-line-break": TRUSTED.replace("'true'", f'"true\\n{COUNT}"'),
    "a-comment-in-the-shell": TRUSTED.replace("'true'", f"'{COUNT} #true'"),
    "an-alias": f"x: &x {EVIL}\nchecks: {{tests: {{run: *x}}}}\n",
    "an-alias-inside": f"checks:\n  a: {{run: &x {EVIL}}}\n  tests: {{run: *x}}\n",
    "a-merge-key": f"checks:\n  a: &x {{run: {EVIL}}}\n  tests: {{<<: *x}}\n",
    "a-second-key": TRUSTED + f"checks:\n  tests: {{run: {EVIL}}}\n",
    "a-second-tests": f"checks:\n  tests: {{run: [sh, -c, 'true']}}\n  tests: {{run: {EVIL}}}\n",
    "a-second-document": f"{TRUSTED}---\n{EVIL_FILE}",
    "a-tag": f"checks:\n  tests: {{run: !!python/tuple {EVIL}}}\n",
    "a-string": f"checks:\n  tests: {{run: '{COUNT}'}}\n",
    "a-mapping": f"checks:\n  tests: {{run: {{sh: '{COUNT}'}}}}\n",
    "an-unknown-key": TRUSTED.replace("needs:", f"before: {EVIL}, needs:"),
    "shell-true": TRUSTED.replace("needs:", "shell: true, needs:"),
    "an-environment": TRUSTED.replace("needs:", "env: {PATH: evil}, needs:"),
    "another-folder": TRUSTED.replace("needs:", "cwd: /, needs:"),
    "an-include": f"include: evil.yml\n{TRUSTED}",
    "extends": f"extends: evil\n{TRUSTED}",
    "fewer-needs": TRUSTED.replace("src/**", "src/a*"),
    "no-needs": TRUSTED.replace(", needs: ['src/**']", ""),
    "more-needs": TRUSTED.replace("'src/**'", "'src/**', 'docs/**'"),
    "needs-outside": TRUSTED.replace("src/**", "../**"),
    "needs-absolute": TRUSTED.replace("src/**", "/etc/**"),
    "needs-home": TRUSTED.replace("src/**", "~/**"),
    "a-report-outside": TRUSTED.replace("needs:", "junit: ../x.xml, needs:"),
    "an-absolute-report": TRUSTED.replace("needs:", "junit: /tmp/x.xml, needs:"),
    "a-pattern-as-report": TRUSTED.replace("needs:", "junit: '*.xml', needs:"),
    "less-guarded": TRUSTED.replace("['tests/**']", "[]"),
    "guarded-outside": TRUSTED.replace("tests/**", "../tests/**"),
    "longer": TRUSTED.replace("needs:", "timeout: 24h, needs:"),
    "for-ever": TRUSTED.replace("needs:", "timeout: 0s, needs:"),
    "more-retries": TRUSTED.replace("needs:", "retries: 10, needs:"),
    "endless-retries": TRUSTED.replace("needs:", "retries: 1000000, needs:"),
    "not-clean": TRUSTED.replace("needs:", "clean: true, needs:"),
    "a-nul": TRUSTED.replace("'true'", '"true\\0evil"'),
    "upper-case-sh": TRUSTED.replace("[sh,", "[SH,"),
    "a-path-to-sh": TRUSTED.replace("[sh,", "[./sh,"),
    "a-homoglyph": TRUSTED.replace("[sh,", "[\u0455h,"),
    "an-invisible-character": TRUSTED.replace("[sh,", "[sh\u200b,"),
    "a-name-like-tests": f"checks:\n  Tests: {{run: {EVIL}}}\n  tests: {{run: {EVIL}}}\n",
    "an-empty-command": "checks:\n  tests: {run: []}\n",
    "an-empty-program": "checks:\n  tests: {run: ['', -c, x]}\n",
    "utf-16": "utf-16",
    "too-large": f"{EVIL_FILE}# {'x' * 2**20}\n",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One repository for all of them: each commits its own definition."""
    folder = tmp_path_factory.mktemp("shared") / "project"
    folder.mkdir()
    app = make_app(folder, str(folder.parent / "deepwork.db"))
    project = Project(folder, app)
    project.define(TRUSTED, trust=False)
    yield project
    app.close()


@pytest.mark.parametrize("text", AT_THE_BASE.values(), ids=AT_THE_BASE)
def test_a_definition_that_differs_from_the_trusted_one_never_runs(shared: Project, text: str):
    project = shared
    project.trust(TRUSTED)
    content = EVIL_FILE.encode("utf-16") if text == "utf-16" else text.encode()
    project.write(".deepwork/checks.yml", content)
    project.base = project.commit("sneaked in")

    with pytest.raises(DeepworkError) as caught:
        project.prove()

    assert caught.value.code in {Code.CHECKS_NOT_TRUSTED, Code.INVALID_INPUT}
    assert project.count_runs() == 0


def sneak_in_a_link(project: Project) -> None:
    project.write("evil.yml", EVIL_FILE)
    place = project.folder / ".deepwork/checks.yml"
    place.unlink()
    place.symlink_to("../evil.yml")
    project.base = project.commit("a link")


def sneak_in_a_file_with_another_name(project: Project) -> None:
    run_git(project.folder, "rm", "-q", "--cached", ".deepwork/checks.yml")
    (project.folder / ".deepwork/checks.yml").rename(project.folder / ".deepwork/checks.yaml")
    project.write(".deepwork/checks.yaml", EVIL_FILE)
    run_git(project.folder, "add", "-f", ".deepwork/checks.yaml")
    run_git(project.folder, "commit", "-q", "-m", "another name")
    project.base = run_git(project.folder, "rev-parse", "HEAD")


def sneak_in_a_replaced_blob(project: Project) -> None:
    before = run_git(project.folder, "rev-parse", "HEAD:.deepwork/checks.yml")
    project.write("evil.yml", EVIL_FILE)
    evil = run_git(project.folder, "hash-object", "-w", "evil.yml")
    run_git(project.folder, "replace", before, evil)


def sneak_in_trust_of_another_project(project: Project) -> None:
    project.write(".deepwork/checks.yml", EVIL_FILE)
    project.base = project.commit("evil")
    other = project.folder.parent / "other"
    open_trust_store().pin(other, Kind.CHECKS, {"tests": 1}, proof="token", trusted_at="now")


def sneak_in_a_trust_file_that_others_may_write(project: Project) -> None:
    project.define(EVIL_FILE)
    (Path(os.environ["XDG_CONFIG_HOME"]) / "deepwork/trust.json").chmod(0o666)


@pytest.mark.parametrize(
    "sneak",
    [
        sneak_in_a_link,
        sneak_in_a_file_with_another_name,
        sneak_in_trust_of_another_project,
        sneak_in_a_trust_file_that_others_may_write,
    ],
)
def test_other_ways_in_are_closed_too(project: Project, sneak):
    project.define(TRUSTED)
    sneak(project)

    with pytest.raises(DeepworkError):
        project.prove()

    assert project.count_runs() == 0


def test_a_replaced_blob_leaves_the_trusted_command(project: Project):
    project.define(TRUSTED)
    sneak_in_a_replaced_blob(project)

    project.prove()

    assert project.count_runs() == 0


def test_trust_ends_when_it_is_revoked(project: Project):
    project.define_check(shell(COUNT))
    open_trust_store().revoke(project.folder)

    with pytest.raises(GateClosed):
        project.prove()

    assert project.count_runs() == 0


def test_an_older_version_that_was_trusted_stays_trusted(project: Project):
    project.define_check(shell("true"))
    older = project.base
    project.define_check(shell("echo new"))

    assert project.prove(base=older)
    assert project.prove()


def test_the_hint_names_the_commit_if_the_last_one_says_something_else(project: Project):
    project.define_check(shell("true"), trust=False)
    project.define_check(shell("echo new"))
    older = run_git(project.folder, "rev-parse", "HEAD~1")

    assert f"deepwork trust --commit {older[:12]}" in project.fail(base=older).suggestion


def test_trust_given_by_an_older_version_has_to_be_given_again(project: Project):
    """It pinned no programs."""
    project.define_check(shell("true"), trust=False)
    definitions = build_trusted_definitions(project.service.load_definitions(project.folder, "HEAD"))
    open_trust_store().pin(project.folder, Kind.CHECKS, definitions, proof="token", trusted_at="now")

    error = project.fail()
    CliRunner().invoke(deepwork, ["trust", "--yes", "--path", str(project.folder)])

    assert error.code is Code.CHECKS_NOT_TRUSTED
    assert "`deepwork trust`" in str(error.suggestion)
    assert project.prove()[0].pins_digest is not None
