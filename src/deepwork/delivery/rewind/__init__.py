"""Rewinds: a person undoes a task with its files, its state and what builds on it."""
