"""Carry messages between clients and the handler: over standard streams, and over HTTP."""
