"""Queries across packages, for the dashboard, hooks, completion, status and metrics."""
