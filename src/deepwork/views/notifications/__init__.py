"""Tells people elsewhere what waits for them and which runs ended: Web Push, webhooks, ntfy, commands."""
