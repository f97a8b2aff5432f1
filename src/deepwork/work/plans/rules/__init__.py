"""What may happen to a plan: pure functions over frozen values."""
