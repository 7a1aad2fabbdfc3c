"""What was renamed on purpose since the digests were written, and what is gone."""

from __future__ import annotations

__all__ = ["RENAMED"]

RENAMED: dict[str, dict[str, str | None]] = {
    "batch": {},
    "sites": {},
    "dag": {
        "metrics.num_jobs": "metrics.jobs_submitted",
        "metrics.num_completed": "metrics.jobs_completed",
        "metrics.num_running": "metrics.jobs_running",
        "metrics.num_waiting": "metrics.jobs_queued",
    },
    "deferrable": {
        "slots.submitted": "slots.arrived",
        "metrics.capacity_share_cores": None,
        "metrics.capacity_share_memory": None,
        "metrics.capacity_share_disk": None,
        "metrics.num_jobs": "metrics.jobs_submitted",
        "metrics.num_started": "metrics.jobs_started",
        "metrics.num_completed": "metrics.jobs_completed",
        "metrics.num_running": "metrics.jobs_running",
        "metrics.num_expired": "metrics.jobs_expired",
        "metrics.num_evicted": "metrics.jobs_evicted",
        "metrics.num_pending": "metrics.jobs_queued",
        "metrics.num_evictions": "metrics.evictions",
    },
    "multiserver": {
        "slots.arrivals": "slots.arrived",
        "slots.waiting": "slots.queued",
        "metrics.num_jobs": "metrics.jobs_submitted",
        "metrics.num_served": "metrics.jobs_started",
        "metrics.num_completed": "metrics.jobs_completed",
        "metrics.num_unserved": "metrics.jobs_unserved",
        "metrics.num_running": "metrics.jobs_running",
        "metrics.num_waiting": "metrics.jobs_queued",
        "metrics.mean_speed": "metrics.speed_mean",
        "metrics.utilization_mean": "metrics.utilization",
    },
    "environments": {},
}
"""By problem: a table, ``"table.column"`` or ``"metrics.name"`` of the digests, and what it is called now; None if it
is gone on purpose. ``{"jobs": "orders", "jobs.submission": "orders.arrival"}``: columns are named with their old table
on the left, and with their new one on the right. New columns need no entry."""
