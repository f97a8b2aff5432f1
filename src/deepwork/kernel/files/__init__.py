"""File access: confined paths, atomic writes, locks, glob patterns, and YAML with line numbers."""
