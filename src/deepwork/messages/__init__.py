"""Messages between agents."""
