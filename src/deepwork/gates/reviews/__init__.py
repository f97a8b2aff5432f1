"""Reviews: `.deepreview` rules that decide which changed files need which review."""
