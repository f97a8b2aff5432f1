"""Repositories, and workspaces: git worktrees that keep parallel tasks apart."""
