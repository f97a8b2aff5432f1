"""Estimating tokens, and shortening text and JSON to fit a budget."""
