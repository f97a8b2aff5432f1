"""Job definitions: finding, parsing and validating job.yml files."""
