"""How a project begins, and how clients learn to start deepwork: edits of other programs' files."""
