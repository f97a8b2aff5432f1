"""Budgets: what work may cost, and a ledger of what it has cost."""
