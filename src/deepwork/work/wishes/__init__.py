"""What a person wants done, in their words: the plan that is made of it, and who plans and reviews it."""
