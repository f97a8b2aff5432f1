"""What a repository may do on this machine: nothing that acts, until a person trusted its definition."""
