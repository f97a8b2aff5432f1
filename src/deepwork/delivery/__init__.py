"""What carries work out and brings it home: the runner, landing, rewind, provenance, adopting a store.

Its packages act on whole tasks and branches, on behalf of a person or of `deepwork run`.
A package belongs here if it starts agents, or moves, undoes or vouches for work that agents did.
"""
