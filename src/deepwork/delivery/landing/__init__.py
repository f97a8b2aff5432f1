"""Landing: finished branches are merged, tested, and become one branch."""
