"""REST API, event streams and web page for people; every change goes through a tool."""
