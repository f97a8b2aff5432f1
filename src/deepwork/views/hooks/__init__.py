"""Client hooks: restore an agent's state after compaction and keep its claims alive."""
