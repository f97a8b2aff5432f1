"""What people say about finished work: comments on its lines, and that they reviewed it."""
