"""What clients call beside an agent's work: its state given back after compaction, its claims kept alive."""
