"""What a batch did: counts, and faults in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos import ledger
from chaos.effects import find_damage, find_mismatches, is_without_gaps, list_effects
from deepwork.edge.server.application import Application


@dataclass
class Result:
    """The outcome of a batch; it passed if there are no faults."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    measured: dict[str, list[float]] = field(default_factory=dict)
    """Values that cannot be added up, such as memory."""

    def count(self, **amounts: int) -> None:
        self.counts.update(amounts)

    def report(self, kind: str, faults: Iterable[str]) -> None:
        """Add faults; `kind` is the count that they belong to, such as `lost`."""
        found = list(faults)
        self.counts[kind] += len(found)
        self.faults += found


def check_entries(
    result: Result,
    app: Application,
    entries: list[ledger.Entry],
    repeated: set[str],
    *,
    acknowledged: float = 0.5,
) -> None:
    """Compare the calls of clients with the store; `repeated`: keys of calls that were sent more than once."""
    acked = [entry for entry in entries if entry.is_acknowledged]
    result.count(
        calls=len(entries),
        acknowledged=len(acked),
        first_try=sum(entry.key not in repeated for entry in acked),
    )
    effects = list_effects(app)
    result.report("lost", ledger.find_lost(entries, effects))
    result.report("doubled", ledger.find_doubled(entries, effects))
    result.report("damaged", find_all_damage(app))
    result.faults += ledger.find_idleness(entries, acknowledged)


def find_all_damage(app: Application) -> list[str]:
    """List gaps in the event log, rows that differ from their last event, and damage of the file."""
    gaps = [] if is_without_gaps(app) else ["events or inboxes have gaps"]
    wrong = [f"{id} differs from its last event" for id in find_mismatches(app)]
    return [*gaps, *wrong, *map(str, find_damage(app))]
