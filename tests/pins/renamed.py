"""What was renamed on purpose since the digests were written, and what is gone."""

from __future__ import annotations

__all__ = ["RENAMED"]

RENAMED: dict[str, dict[str, str | None]] = {
    "batch": {},
    "dag": {
        "metrics.num_jobs": "metrics.jobs_submitted",
        "metrics.num_completed": "metrics.jobs_completed",
        "metrics.num_running": "metrics.jobs_running",
        "metrics.num_waiting": "metrics.jobs_queued",
    },
    "deferrable": {},
    "multiserver": {},
    "environments": {},
}
"""By problem: a table, ``"table.column"`` or ``"metrics.name"`` of the digests, and what it is called now; None if it
is gone on purpose. ``{"jobs": "orders", "jobs.submission": "orders.arrival"}``: columns are named with their old table
on the left, and with their new one on the right. New columns need no entry."""
