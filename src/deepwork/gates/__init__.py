"""What work must pass before it counts: checks, approvals, budgets, reviews and access.

A gate knows what it was asked about only by an id, a tree or a digest, never by the plan or job that asked.
A package belongs here if it answers "may this pass?" and leaves to others what follows.
"""
