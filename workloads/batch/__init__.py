"""Workloads of rigid jobs: logs and models."""
