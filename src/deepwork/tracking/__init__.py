"""Who did what in a run of work: phases, tasks, decisions, and the files that each task changed."""
