"""Approvals: decisions of people, bound to exactly what they were shown."""
