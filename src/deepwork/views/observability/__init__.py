"""Logging, metrics and tracing of the process."""
