"""Git, asked in a way that no repository can turn against us."""
