"""Running a program so that no process of it outlives it, its time, or the process that started it."""
