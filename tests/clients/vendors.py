"""The vendors' clients, pointed at the scripted model: what is set, what is in the home folder, how each is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

KEY = "key-of-the-scripted-model"
OPENCODE_MODEL = "local/scripted"


@dataclass(frozen=True)
class Vendor:
    """A client as a person who uses an endpoint of their own has it."""

    name: str
    variables: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    start: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()

    def install(self, home: Path) -> None:
        """Write the client's own settings into a home folder."""
        for name, text in self.files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def build_command(self, tree: Path, session: str | None) -> list[str]:
        """Build the headless command line; the prompt is on standard input."""
        words = (*self.start, *(self.resume if session else ()))
        if self.name == "codex":
            words = (*words, "-")
        return [word.format(tree=tree, session=session) for word in words]


def point_at(url: str) -> dict[str, Vendor]:
    """Describe the clients of a machine whose models are all at this address."""
    return {vendor.name: vendor for vendor in (_claude(url), _codex(url), _gemini(url), _opencode(url))}


def _claude(url: str) -> Vendor:
    return Vendor(
        "claude",
        {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": KEY},
        start=("claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits",
               "--allowedTools", "Bash"),
        resume=("--resume={session}",),
    )  # fmt: skip


def _codex(url: str) -> Vendor:
    return Vendor(
        "codex",
        {"CODEX_API_KEY": KEY},
        {".codex/config.toml": f'openai_base_url = "{url}/v1"\n'},
        start=("codex", "exec", "--json", "--cd", "{tree}", "--sandbox", "workspace-write"),
        resume=("resume", "{session}"),
    )  # fmt: skip


def _gemini(url: str) -> Vendor:
    # With an address of its own Gemini CLI takes the key only if the settings say so.
    return Vendor(
        "gemini",
        {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
        {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}\n'},
        start=("gemini", "-p", "", "-o", "stream-json", "--skip-trust", "--approval-mode", "yolo"),
        resume=("--resume", "{session}"),
    )  # fmt: skip


def _opencode(url: str) -> Vendor:
    price = {"input": 1.0, "output": 10.0, "cache_read": 0.1}
    model = {"name": "Scripted", "cost": price, "limit": {"context": 100_000, "output": 10_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"scripted": model},
    }
    settings = {"model": OPENCODE_MODEL, "small_model": OPENCODE_MODEL, "provider": {"local": provider}}
    return Vendor(
        "opencode",
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        {".config/opencode/opencode.json": json.dumps(settings)},
        start=("opencode", "run", "--format", "json", "--dir", "{tree}", "--auto", "--print-logs",
               "--log-level", "ERROR"),
        resume=("--session", "{session}"),
    )  # fmt: skip
