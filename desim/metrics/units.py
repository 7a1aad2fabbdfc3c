"""Units, directions and headlines of the metrics of the multi-server problem, until its wing has them."""

from __future__ import annotations

from typing import Any

__all__ = ["KNOWN"]

KNOWN: dict[str, Any] = {
    "headline": ("average_reward", "average_gain", "average_overhead", "reward_per_job", "utilization_mean"),
    "main": (
        "average_reward",
        "average_gain",
        "average_overhead",
        "reward_per_job",
        "utilization_mean",
        "num_unserved",
        "throughput",
        "turnaround_time_mean",
        "queue_length_mean",
    ),
    "units": {
        "num": ("jobs", None),
        "num_slots": ("slots", None),
        "num_unserved": ("jobs", "lower"),
        "total_reward": ("", "higher"),
        "average_reward": ("", "higher"),
        "average_gain": ("", "higher"),
        "average_overhead": ("", "lower"),
        "reward_per_job": ("", "higher"),
        "utilization": ("", None),
        "reserved": ("", None),
        "waiting_time": ("slots", "lower"),
        "turnaround_time": ("slots", "lower"),
        "execution_time": ("slots", "lower"),
        "throughput": ("jobs a slot", "higher"),
        "mean_speed": ("", "higher"),
        "queue_length": ("jobs", "lower"),
    },
}
