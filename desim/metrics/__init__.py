"""Metrics stand in the wings of their problems, such as `desim.problems.batch.metrics`."""
