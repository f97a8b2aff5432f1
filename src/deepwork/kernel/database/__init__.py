"""Database access: one interface over SQLite and PostgreSQL, one transaction per tool call."""
