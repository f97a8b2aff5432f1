"""Where the program begins: the server, which builds everything, and the command line.

Only here are the parts put together, so an implementation that a lower floor needs is passed down from here.
A module belongs here if it starts a process, reads its arguments or speaks to a transport.
"""
