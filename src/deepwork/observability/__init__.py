"""What the process tells of itself: log lines, figures, traces."""
