"""Jobs: workflows defined in files, and the sessions that run them step by step through quality gates."""
