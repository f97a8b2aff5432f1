"""Reusable plan templates: stored ones, files of a project or a user, and those shipped with deepwork."""
