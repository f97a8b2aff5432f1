"""Registered agents: presence (online or offline), leases, and the tools to manage them."""
