"""How rows are kept: one interface over SQLite and PostgreSQL, one transaction per tool call."""
