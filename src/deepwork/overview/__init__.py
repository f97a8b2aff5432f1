"""Queries across packages: what the dashboard, the hooks, the status command and the metrics read."""
