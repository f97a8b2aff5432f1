"""Commits with their origins in formats of others: Agent Trace records, in-toto statements and git notes.

Prompts, outcomes and transcripts are left out unless they are asked for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp
from deepwork.kernel.vendors import AGENT_KINDS

_TRACE_VERSION = "0.1.0"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "urn:deepwork:attestation:origin:v1"
_NAMESPACE = uuid.UUID("6f9e1c1e-6a52-4d0c-9a54-3a5b8f0d2c11")
_PRIVATE_KEYS = frozenset({"description", "outcome", "text", "reasoning", "comment", "transcript"})
"""Keys of a chain whose values people or agents wrote to each other."""
_MAX_MODEL = 250


@dataclass(frozen=True)
class ExportedCommit:
    """A commit, the lines that it added, its links with tasks, and the chain behind those, as JSON values."""

    hash: str
    tree: str
    committed_at: int
    """Unix seconds."""
    links: Sequence[Mapping[str, Any]]
    tasks: Sequence[Mapping[str, Any]]
    added: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    prompts: Sequence[str] = ()


def build_trace(commit: ExportedCommit, version: str) -> dict[str, Any]:
    """Build the Agent Trace record of a commit; it has the same id whenever it is exported."""
    contributor = _build_contributor(commit)
    conversation = {"contributor": contributor}
    files = [
        {
            "path": path,
            "conversations": [
                {
                    **conversation,
                    "ranges": [{"start_line": first, "end_line": last} for first, last in ranges],
                }
            ],
        }
        for path, ranges in sorted(commit.added.items())
    ]
    return {
        "version": _TRACE_VERSION,
        "id": str(uuid.uuid5(_NAMESPACE, commit.hash)),
        "timestamp": format_timestamp(commit.committed_at * 1000),
        "vcs": {"type": "git", "revision": commit.hash},
        "tool": {"name": "deepwork", "version": version},
        "files": files,
        "metadata": {"deepwork": _build_origin(commit)},
    }


def build_statement(commit: ExportedCommit) -> dict[str, Any]:
    """Build the in-toto statement of a commit. Nobody has signed it."""
    return {
        "_type": _STATEMENT_TYPE,
        "subject": [
            {"name": "commit", "digest": {"gitCommit": commit.hash}},
            {"name": "tree", "digest": {"gitTree": commit.tree}},
        ],
        "predicateType": _PREDICATE_TYPE,
        "predicate": _build_origin(commit),
    }


def build_note(commit: ExportedCommit) -> str:
    """Build the text of the git note of a commit: one line of JSON."""
    return json.dumps(_build_origin(commit), ensure_ascii=False, sort_keys=True) + "\n"


def remove_private(value: Any) -> Any:
    """Return a chain without what people and agents wrote to each other."""
    if isinstance(value, Mapping):
        return {key: remove_private(each) for key, each in value.items() if key not in _PRIVATE_KEYS}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [remove_private(each) for each in value]
    return value


def _build_origin(commit: ExportedCommit) -> dict[str, Any]:
    origin: dict[str, Any] = {"links": list(commit.links), "tasks": list(commit.tasks)}
    return origin | ({"prompts": list(commit.prompts)} if commit.prompts else {})


def _build_contributor(commit: ExportedCommit) -> dict[str, str]:
    """Return who wrote the commit: an agent, if an attempt or an agent is known to have made it."""
    attempts = [each for task in commit.tasks for each in task["attempts"] if each["made_it"]]
    models = [_name_model(each["vendor"], each["model"]) for each in attempts if each.get("model")]
    is_agent = bool(attempts) or any(link.get("agent_id") for link in commit.links)
    if not commit.links or not (is_agent or any(task["agents"] for task in commit.tasks)):
        return {"type": "unknown"}
    return {"type": "ai"} | ({"model_id": models[0][:_MAX_MODEL]} if models else {})


def _name_model(vendor: str, model: str) -> str:
    provider = AGENT_KINDS[vendor].model_provider if vendor in AGENT_KINDS else None
    return model if "/" in model or provider is None else f"{provider}/{model}"
