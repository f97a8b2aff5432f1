"""The rows of plans: one class per subject, one method per query."""
