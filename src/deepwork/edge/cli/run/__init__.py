"""`deepwork run`, `runs` and `work`: start agents, watch them, come back to them, stop them."""
