"""The HTTP server: one ASGI application behind one guard."""
