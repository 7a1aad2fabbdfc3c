"""Checkpoints on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from desim.scenario import MaybeDuration

if TYPE_CHECKING:
    from desim.plugins import LoadedWorkload
    from desim.problems.batch.job import Job

__all__ = ["Options", "settings"]


@dataclass(frozen=True)
class Options:
    """Options of checkpoints."""

    checkpoint_interval: Annotated[MaybeDuration, arg(help_behavior_hint="(default: none)")] = None
    """Seconds of work between checkpoints, from which interrupted jobs resume."""


def settings(options: Options, workload: LoadedWorkload, jobs: Iterable[Job]) -> dict[str, Any]:
    """Return arguments of a cluster that follow from the options."""
    return {"checkpoint_interval": options.checkpoint_interval}
