"""Notices: what agents must hear of, stored until an answer or a hook carries it."""
