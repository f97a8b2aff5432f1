"""Initialises projects and registers deepwork in the config files of MCP clients."""
