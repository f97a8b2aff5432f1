"""What people and clients look at: queries across packages, the dashboard, hooks, metrics, set-up.

A view reads what lower floors keep and calls their tools and actions; it has no rows and decides nothing.
A package belongs here if removing it would lose a sight of the work, and none of the work.
"""
