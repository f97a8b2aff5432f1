"""Administration of a whole store: copies, backups and sizes."""
