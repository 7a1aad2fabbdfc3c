"""Results of the multi-server cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from desim.metrics.multiserver import MULTISERVER_METRICS
from desim.plotting._presentations.base import Figure, Presentation
from desim.plotting.allocation_maps import allocation_map
from desim.plotting.resources import resource_utilization
from desim.plotting.rewards import average_reward, reward_parts
from desim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MULTISERVER"]


def _reward(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return average_reward(results)


def _parts(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return reward_parts(results)


def _resources(results: Mapping[str, Result]) -> Axes | list[Axes]:
    return resource_utilization(results)


def _allocation(results: Mapping[str, Result]) -> Axes | list[Axes]:
    first = next(iter(results.values()))
    return allocation_map(results, str(first.info["resources"][0]))


def _size(result: Result) -> tuple[str, int]:
    return "nodes", int(result.info["num_nodes"])


def _workload(result: Result) -> dict[str, float]:
    slots, jobs, ports = len(result.table("slots")), len(result.jobs), int(result.info["num_ports"])
    return {
        "slots": float(slots),
        "jobs": float(jobs),
        "ports": float(ports),
        "nodes": float(result.info["num_nodes"]),
        "channels": float(result.info["num_channels"]),
        "resources": float(len(result.info["resources"])),
        "jobs per slot and port": jobs / (slots * ports) if slots * ports else math.nan,
    }


MULTISERVER = Presentation(
    problem="multiserver",
    meanings=MULTISERVER_METRICS,
    headline=("average_reward", "average_gain", "average_overhead", "reward_per_job", "utilization_mean"),
    main=(
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
    kinds={
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
    figures={
        "allocation": Figure(
            _allocation,
            "What jobs hold of the first resource, node by node and slot by slot: the darker, the larger the share of "
            "the node's capacity.",
        ),
        "reward": Figure(_reward, "Average reward: the mean of the rewards of all slots so far."),
        "parts": Figure(_parts, "What rewards are made of: gain less overhead, means over the slots."),
        "resources": Figure(_resources, "Utilization: what jobs hold of each resource as a share of what there is."),
    },
    workload=_workload,
    same_workload={
        "jobs": ("job_id", "port", "submission_time"),
        "slots": ("slot", "arrivals"),
        "ports": ("port", "resource", "request"),
        "nodes": ("node", "resource", "capacity"),
        "channels": ("port", "node"),
    },
    size=_size,
    statuses=("completed", "unserved", "running", "waiting"),
    time_unit="slots",
)
