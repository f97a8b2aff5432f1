"""Where work happens: repositories, and the git worktrees that keep parallel tasks apart."""
