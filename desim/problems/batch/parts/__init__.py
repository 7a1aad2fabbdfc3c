"""Parts of a batch cluster: one package per feature, with all that the others ask about it.

The package of a feature has its :class:`Part`; ``INFO`` and ``TABLES``, which describe what a run with the feature
records; ``sentence``, which says for reports what was in force; ``METRICS`` and ``measure``, if it has metrics;
``rules`` with validation rules; and ``options`` for the command line. Nothing outside names a feature to find these:
:func:`gathered` collects them, and whatever is deleted with a package is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from desim.exceptions import InvalidConfiguration
from desim.problems.batch.job import Job
from desim.problems.batch.parts.base import Part

if TYPE_CHECKING:
    from desim.problems.batch.parts.limits import Limit
    from desim.problems.batch.parts.preemption import QualityOfService
    from desim.problems.batch.parts.reservations import AdvanceReservation

__all__ = ["Part"]

FEATURES = ("outages", "dependencies", "limits", "reservations", "preemption", "checkpoints")
"""Packages of the features, in the order in which their hooks are called."""


def gathered(name: str, module: str = "") -> tuple[Any, ...]:
    """Return what the features define under a name, in their order; a tuple or list stands for its elements.

    Parameters
    ----------
    name : str
        Name such as ``"TABLES"``; features without it are left out.
    module : str
        Module of the packages, such as ``"rules"``.

    Returns
    -------
    tuple
        Values of the features.
    """
    found: list[Any] = []
    for feature in FEATURES:
        place = ".".join(filter(None, (__name__, feature, module)))
        try:
            value = getattr(import_module(place), name, ())
        except ModuleNotFoundError as error:
            if error.name not in (place, f"{__name__}.{feature}"):
                raise
        else:
            found += value if isinstance(value, tuple | list) else (value,)
    return tuple(found)


def standard_parts(
    jobs: Sequence[Job],
    limits: Iterable[Limit],
    reservations: tuple[AdvanceReservation, ...],
    qos: Iterable[QualityOfService],
    checkpoint_interval: float | None,
) -> Iterator[Part]:
    """Yield the parts for the arguments of a :class:`~desim.problems.batch.BatchCluster` that are not empty.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs that are known in advance.
    limits : iterable of Limit
    reservations : tuple of AdvanceReservation
    qos : iterable of QualityOfService
    checkpoint_interval : float or None
        Arguments of the cluster.
    """
    if has_dependencies(jobs):
        from desim.problems.batch.parts.dependencies import Dependencies, Followers

        if (dependencies := Dependencies(jobs)).of_job:
            yield Followers(dependencies)
    if limits := tuple(limits):
        from desim.problems.batch.parts.limits import Limits

        yield Limits(limits)
    if reservations:
        from desim.problems.batch.parts.reservations import Reservations

        yield Reservations(reservations)
    if qos := tuple(qos):
        from desim.problems.batch.parts.preemption import Preemption, QOSTable

        yield Preemption(QOSTable(qos, jobs))
    if checkpoint_interval is not None:
        from desim.problems.batch.parts.checkpoints import Checkpoints

        yield Checkpoints(checkpoint_interval)


def has_dependencies(jobs: Sequence[Job]) -> bool:
    """Return whether some job depends on another."""
    columns = getattr(jobs, "columns", None)  # of a Workload, whose module imports parts
    return any(map(_after, jobs)) if columns is None else "after" in columns


def check_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return a user's parts, or raise InvalidConfiguration if one is not an object of a subclass of `Part`."""
    given = tuple(parts)
    if wrong := [part for part in given if not isinstance(part, Part)]:
        raise InvalidConfiguration(f"parts: got {wrong[0]!r}, expected objects of subclasses of desim's Part")
    return given


def hooks(parts: Iterable[Part], name: str) -> tuple[Callable[..., Any], ...]:
    """Return the methods with a name of those parts whose class overrides it."""
    return tuple(getattr(part, name) for part in parts if getattr(type(part), name) is not getattr(Part, name))


_after = itemgetter(Job._fields.index("after"))  # faster than by name
