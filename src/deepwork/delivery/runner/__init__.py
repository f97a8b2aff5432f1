"""Starts agents of any vendor on claimed tasks, and goes on after limits, crashes and reboots."""
