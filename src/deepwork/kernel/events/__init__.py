"""The event log, a feed that follows it, and a hub that shares one feed among many clients."""
