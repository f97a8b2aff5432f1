"""What happened, in order, for whoever wants to follow: the log and the feed that tails it."""
