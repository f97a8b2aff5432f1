"""Jobs: workflows that people write in files, and sessions that carry them out behind quality gates."""
