"""SQL conditions on leases; without imports, because every hook loads them."""

CLOCK_TOLERANCE_MS = 10_000
"""How far in the future a heartbeat may be; one further ahead was stored before the clock was set back."""
_IS_FROM_FUTURE = (
    "EXISTS (SELECT 1 FROM agents AS holder WHERE holder.id = leases.who"  # noqa: S608 - a constant
    f" AND holder.last_heartbeat > :now + {CLOCK_TOLERANCE_MS})"
)
# The clock was set back since the holder's last sign of life, so the end of its lease says nothing: without
# this, a lease would be as long as the correction. Its next sign of life renews it.
IS_VALID = f"(leases.until >= :now AND NOT {_IS_FROM_FUTURE})"
"""SQL condition: the lease has not run out."""
HAS_RUN_OUT = f"(leases.until < :now OR {_IS_FROM_FUTURE})"
VALID_UNTIL = f"CASE WHEN {_IS_FROM_FUTURE} THEN 0 ELSE leases.until END"
"""SQL expression: when the lease ends; 0 if it has run out because the clock was set back."""
