"""The Model Context Protocol: revisions, messages and transports. Knows no tool.

A `Service` (`service.py`) answers for the tools, prompts and resources; `MessageHandler` (`handler.py`) turns
messages into calls of the service, in the revision that the client speaks; `transports/` carries messages.
"""
