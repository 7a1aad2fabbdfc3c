"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

__all__ = ["JsonFlag", "MetricOptions", "SystemOptions", "WorkloadOptions"]

JsonFlag = Annotated[bool, arg(name="json")]


@dataclass(frozen=True)
class WorkloadOptions:
    """The jobs and the machine."""

    trace: Annotated[str, arg(metavar="FILE|lublin", aliases=["--workload"])] = "lublin"
    """A file (.swf, .swf.gz, Batsim .json, job table .parquet), or lublin: jobs generated from a seed."""
    cores: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: as the file states, else 256)")] = None
    """Cores of the machine."""
    jobs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 10000, of a file all)")] = None
    """How many jobs to generate, or the most to read."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Seed of everything random: generated jobs, outages."""
    load: Annotated[float | None, arg(metavar="X", help_behavior_hint="(default: as it is)")] = None
    """Stretch the times between submissions so that the offered load is X, such as 0.9."""
    overestimate: Annotated[float, arg(metavar="X")] = 1.0
    """Generated jobs request between 1 and X times their actual run time."""


@dataclass(frozen=True)
class SystemOptions:
    """How the cluster behaves."""

    until: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: the last job)")] = None
    """End the run at this time, in seconds."""
    too_wide: Literal["error", "reject"] = "error"
    """What to do with a job that requests more cores than there are."""
    kill_at_request: Annotated[bool, arg(help_behavior_hint="(default: they are killed)")] = True
    """Let jobs run on beyond their requested time instead of killing them."""
    on_outage: Literal["requeue", "lose"] = "requeue"
    """What becomes of a job whose core fails."""
    mean_time_to_failure: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: none fail)")] = None
    """Cores fail at random, each after this time on average, in seconds."""
    mean_time_to_repair: Annotated[float | None, arg(metavar="S", help_behavior_hint="(with failures)")] = None
    """They are repaired after this time on average, in seconds."""
    cores_per_failure: Annotated[int, arg(metavar="N")] = 1
    """Cores that fail together, as those of a node."""


@dataclass(frozen=True)
class MetricOptions:
    """What the metrics cover."""

    warm_up: Annotated[float, arg(metavar="S")] = 0.0
    """Leave out what happens in the first seconds after the first submission."""
    unfinished: Literal["exclude", "include"] = "exclude"
    """Whether jobs that have not finished count with their times so far."""
