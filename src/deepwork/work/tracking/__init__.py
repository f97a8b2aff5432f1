"""Tracked workflows: phases, tasks, decisions, and the files that each task changed."""
