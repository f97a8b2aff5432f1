"""Checks: commands of the repository that prove that work is done."""
