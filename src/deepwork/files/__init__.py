"""Files of a project: paths kept inside it, writes that survive a crash, locks, YAML with line numbers."""
