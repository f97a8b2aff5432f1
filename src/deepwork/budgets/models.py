"""Limits of what work may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """What work may cost; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None
