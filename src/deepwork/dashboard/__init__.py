"""What people and their programs see of the work, over HTTP; it never writes but through a slice's tools."""
