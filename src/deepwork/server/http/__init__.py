"""The server on the network: one application behind one guard."""
