"""Relative measurements: each module is a script that prints one table."""
