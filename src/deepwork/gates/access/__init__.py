"""Access control with named tokens and scopes, and the audit log of tool calls."""
