"""What the documentation adds to Sphinx."""
