"""Job sessions: the state of each run of a job, in files and in the store."""
