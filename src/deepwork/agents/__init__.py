"""Who works, whether they are alive, and what they hold."""
