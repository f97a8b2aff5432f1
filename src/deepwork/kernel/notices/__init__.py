"""Notices: what a person did, delivered to the agents that it concerns."""
