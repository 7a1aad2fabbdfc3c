"""Job dependencies on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from desim.scenario import Duration

__all__ = ["Options"]

OF_WORKLOAD = ("dependencies", "session_gap")


@dataclass(frozen=True)
class Options:
    """Options of job dependencies."""

    dependencies: Annotated[
        Literal["drop", "keep", "users", "sequential"] | None,
        arg(help_behavior_hint="(default: keep those of a job table)"),
    ] = None
    """Job dependencies: as recorded in the log (keep), or each user's jobs with their think times, in sessions of
    batches (users) or one job after the other (sequential)."""
    session_gap: Duration = 1_200.0
    """Think time in seconds above which a new session of a user starts; for --dependencies users and sequential."""
