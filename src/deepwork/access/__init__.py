"""Who may do what, and the record of who did what."""
