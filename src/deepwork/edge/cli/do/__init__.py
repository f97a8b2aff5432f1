"""`deepwork do`: from a sentence to a tested branch, by the plans, runs and landings of all commands."""
