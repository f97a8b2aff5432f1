"""Runs git so that no hook, filter or setting of an untrusted repository is executed."""
