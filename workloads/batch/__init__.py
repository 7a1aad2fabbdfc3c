"""Batch workloads: logs, and models of rigid jobs."""
