"""Plans to be used again: stored ones, files of a project or a user, and those that come with deepwork."""
