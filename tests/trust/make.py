"""Helpers: projects with settings, and what this user trusts in them."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.config import Settings, list_acting_settings
from deepwork.kernel.user_settings import Kind, open_trust_store


def write_config(root: Path, text: str) -> Path:
    (root / ".deepwork").mkdir(parents=True, exist_ok=True)
    (root / ".deepwork" / "config.yml").write_text(text)
    return root


def trust_settings(root: Path) -> Path:
    """Trust the settings that a project has now, as `deepwork trust --yes` does."""
    open_trust_store().pin(
        Settings(root.resolve()).repository_root, Kind.CONFIG, list_acting_settings(root),
        proof="token", trusted_at="2026-01-01T00:00:00.000Z",
    )  # fmt: skip
    return root
