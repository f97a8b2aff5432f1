"""Selects the tools a server offers; the selection is fixed at startup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deepwork.edge.server.registry import OperationSpec
from deepwork.kernel.config import Settings
from deepwork.kernel.errors import DefinitionError


def select_tools(registry: Mapping[str, OperationSpec], settings: Settings) -> dict[str, OperationSpec]:
    """Select the tools allowed by --toolsets, --tools, --exclude-tools and --read-only."""
    toolsets = {spec.toolset for spec in registry.values()}
    _require_known("toolset", settings.toolsets, toolsets | {"all"})
    _require_known("tool", (*settings.tools, *settings.exclude_tools), registry)
    return {
        name: spec
        for name, spec in registry.items()
        if ("all" in settings.toolsets or spec.toolset in settings.toolsets)
        and (not settings.tools or name in settings.tools)
        and name not in settings.exclude_tools
        and (spec.read_only or spec.declaration.offered_on_read_only_server or not settings.read_only)
    }


def _require_known(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise DefinitionError(
            f"There is no {kind} {unknown[0]!r}.", suggestion=f"The {kind}s are: {', '.join(sorted(known))}."
        )
