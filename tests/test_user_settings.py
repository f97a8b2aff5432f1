"""The user's own settings, which no repository can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.errors import DefinitionError, StorageError
from deepwork.kernel.user_settings import CredentialKind, DayBudget, UserSettings, load_user_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "deepwork"
    made.mkdir(mode=0o700)
    return made


def load(folder: Path, text: str | None = None) -> UserSettings:
    if text is not None:
        (folder / "config.yml").write_text(text)
    return load_user_settings({"XDG_CONFIG_HOME": str(folder.parent)})


def test_without_a_file_a_token_is_proof_enough_and_no_day_has_a_budget(tmp_path: Path):
    assert load(tmp_path / "deepwork") == UserSettings(CredentialKind.TOKEN, None)


def test_it_reads_the_proof_and_the_budget_of_a_day(folder: Path):
    text = "approvals: {proof: passphrase}\nbudget: {day: {usd: 12.5, tokens: 1000000, minutes: 600}}\n"

    assert load(folder, text) == UserSettings(CredentialKind.PASSPHRASE, DayBudget(12.5, 1_000_000, 600))


@pytest.mark.parametrize("text", ["", "approvals:\n", "approvals: {}\nbudget:\n  day:\n"])
def test_what_is_empty_counts_as_not_set(folder: Path, text: str):
    assert load(folder, text) == UserSettings()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("approval: {proof: passkey}", "unknown key 'approval'; known here: approvals, budget"),
        ("approvals: {prof: passkey}", "unknown key 'approvals.prof'"),
        (
            "approvals: {proof: Passkey}",
            "`approvals.proof` in .* is 'Passkey'; it must be token, passphrase or",
        ),
        ("approvals: {proof: [passkey]}", "`approvals.proof`"),
        ("approvals: passkey", "`approvals` in .* is 'passkey'; it must be a mapping with the keys proof"),
        ("- approvals", "it must be a mapping with the keys approvals, budget"),
        ("budget: {day: {usd: -1}}", "`budget.day.usd` in .* is '-1'"),
        ("budget: {day: {tokens: 1.5}}", "`budget.day.tokens` .* whole number"),
        ("budget: {day: {minutes: yes}}", "`budget.day.minutes`"),
        ("budget: {day: {usd: true}}", "`budget.day.usd`"),
        ("budget: {week: {usd: 1}}", "unknown key 'budget.week'"),
        ("approvals: {proof: token}\napprovals: {proof: token}", "config.yml"),
    ],
)
def test_anything_else_is_an_error_that_names_the_key(folder: Path, text: str, problem: str):
    with pytest.raises(DefinitionError, match=problem):
        load(folder, text)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(folder: Path, mode: int):
    load(folder, "approvals: {proof: token}\n")
    (folder / "config.yml").chmod(mode)

    with pytest.raises(StorageError, match="may write it"):
        load(folder)


def test_a_link_is_refused(folder: Path, tmp_path: Path):
    (tmp_path / "elsewhere.yml").write_text("approvals: {proof: token}\n")
    (folder / "config.yml").symlink_to(tmp_path / "elsewhere.yml")

    with pytest.raises(StorageError, match="is a link"):
        load(folder)


def test_a_project_cannot_set_them(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork/config.yml").write_text("approvals: {proof: token}\n")
    own = tmp_path / "deepwork"
    own.mkdir(mode=0o700)

    assert load(own, "approvals: {proof: passkey}\n").proof is CredentialKind.PASSKEY
