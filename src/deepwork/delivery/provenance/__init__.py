"""Provenance: which task, attempt and agent made a commit, and how that is known."""
