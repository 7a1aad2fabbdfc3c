"""What the DBF paper says of its figures; it prints hardly a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["CLAIMS", "HALVED", "QUEUE_LENGTH", "SIZES", "SLOWDOWN", "TAIL_HELPS"]

SIZES = (8, 10, 16, 20, 32, 64)
"""Window sizes of figure 5."""
TAIL_HELPS = (8, 10, 16, 20)
"""Window sizes at which slots at the tail help, and one already strongly."""
HALVED: Mapping[str, float] = {"waiting_time_mean": 0.49, "queue_length_mean": 0.50}
"""By how much the best split of 20 slots is below 20 slots at the head."""
QUEUE_LENGTH = 31.0
"""Mean queue length with a window of 20 slots."""
SLOWDOWN: Mapping[str, float] = {"SchedInspector, SJF by cores": 62.2, "SJF by cores, back-filling": 73.3}
"""Mean job slowdown, offline: of SchedInspector over SJF, and of SJF alone, which there is by cores."""

CLAIMS: Mapping[str, Sequence[str]] = {
    "figure3": [
        "The paper: utilization, waiting time and queue length improve most within 5,000 episodes, and little "
        "afterwards; at M = 20 the queue is 31 jobs long on average."
    ],
    "figure4": [
        "The paper: windows of 32, 64 and 128 slots have the best waiting times and queue lengths of all; the "
        "heuristics have slightly better utilization and queued load; both SchedInspectors have the lowest "
        "utilization.",
        "The paper's mean job slowdowns: 62.2 for SchedInspector over SJF, 73.3 for SJF.",
    ],
    "figure5": [
        "The paper: at 8, 10, 16 and 20 slots more tail helps, one slot already strongly; at 20 slots waiting time "
        "falls by 49 % and queue length by 50 %; at 32 and 64 the gain is small, and too much tail costs."
    ],
    "figure6": [
        "The paper: at 8 and 10 slots the split lowers both the number of invisible jobs and the share of decisions "
        "that have any; at 16 and 20 the number, at the same share; at 32 hardly."
    ],
    "figure7": [
        "The paper: one slot at the tail lowers the waiting time of nearly every type of job; 0-10 starves large jobs "
        "and should not be used, although its mean is the best."
    ],
}
"""By figure."""
