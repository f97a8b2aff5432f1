"""What everything else stands on: errors, names, files, git, the database, events, the protocol, settings.

Nothing here knows about plans, jobs, agents or reviews. A module belongs here if a program that is not about
work could use it as it is.
"""
