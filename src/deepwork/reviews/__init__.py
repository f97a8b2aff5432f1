"""Reviews: `.deepreview` rules that say who must look at which changed file."""
