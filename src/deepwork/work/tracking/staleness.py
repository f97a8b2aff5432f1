"""When a running task counts as stale; without imports, because `deepwork status` loads it."""

from __future__ import annotations

STALE_MS = 30 * 60 * 1000
"""A running task without any call about it for this long is marked stale."""
