"""The repair report: what a reader dropped, changed or noted, how often, and where first."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from desim.exceptions import WorkloadError
from desim.reprs import html_rows

__all__ = ["ListedReason", "Reason", "RepairReport"]

#: Number of places (e.g. lines of the file) remembered per reason.
EXAMPLES = 5


class Reason(Protocol):
    """Reason why a reader dropped or changed a row, or noted something about it."""

    @property
    def name(self) -> str:
        """Name of the reason."""

    @property
    def action(self) -> str:
        """Action taken: ``"dropped"``, ``"changed"``, ``"ignored"`` (data present but not used) or ``"noted"``."""

    @property
    def meaning(self) -> str:
        """Explanation of the reason."""


class ListedReason(Enum):
    """Enumeration of reasons; each member holds the action taken and an explanation.

    A dropped row is counted under one reason only: the first that applies, in the order of the enumeration. A row that
    was kept may be counted under several reasons.

    Parameters
    ----------
    action : str
        Action taken, see `Reason`.
    meaning : str
        Explanation, as a phrase.
    """

    def __init__(self, action: str, meaning: str) -> None:
        self.action = action
        self.meaning = meaning


Why = TypeVar("Why", bound=Reason)
Place = TypeVar("Place", int, str)


@dataclass(repr=False)
class RepairReport(Generic[Why, Place]):
    """Counts of the rows that a reader dropped, changed or noted.

    A streaming reader fills its report block by block, so the report runs ahead of the rows delivered so far.

    Parameters
    ----------
    unit : str
        Meaning of a place: for example a line number of a text file, from 1, or a position in a list, from 0.
    rows : int
        Number of rows read; comments and blank lines are not rows.
    counts : dict of reason to int
        Number of rows per reason.
    places : dict of reason to list
        First few places per reason.
    """

    unit: str = "line"
    rows: int = 0
    counts: dict[Why, int] = field(default_factory=dict)
    places: dict[Why, list[Place]] = field(default_factory=dict)

    def add(self, reason: Why, places: Iterable[Place]) -> None:
        """Count one row per place.

        Parameters
        ----------
        reason : Reason
            Reason that applies to these rows.
        places : iterable
            Places of the rows, in the order of the file.
        """
        found = list(places)
        if not found:
            return
        self.counts[reason] = self.counts.get(reason, 0) + len(found)
        known = self.places.setdefault(reason, [])
        known.extend(found[: EXAMPLES - len(known)])

    def merge(self, other: RepairReport[Why, Place]) -> None:
        """Add the rows and the counts of another report."""
        self.rows += other.rows
        for reason, places in other.places.items():
            self.add(reason, places)
            self.counts[reason] += other.counts[reason] - len(places)

    def refuse_repairs(self, source: str, asked: Collection[Why] = ()) -> None:
        """Raise an error if a row was dropped or changed, for readers that are strict.

        Parameters
        ----------
        source : str
            Name of the file.
        asked : collection of reason
            Reasons that the caller's options ask for, which are no repairs.

        Raises
        ------
        WorkloadError
            For the first reason, with the first place.
        """
        for reason in self._found():
            if reason.action in ("dropped", "changed") and reason not in asked:
                raise WorkloadError(
                    f"{source}: {self.unit} {self.places[reason][0]}: {reason.meaning} ({reason.action}, "
                    f"{self.counts[reason]:,} times); strict reading expected nothing to repair"
                )

    def count(self, reason: Why) -> int:
        """Return the number of rows counted under a reason."""
        return self.counts.get(reason, 0)

    @property
    def dropped(self) -> int:
        """Number of rows dropped."""
        return sum(count for reason, count in self.counts.items() if reason.action == "dropped")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON.

        Returns
        -------
        dict
            The totals, ``dropped``, ``unit`` and ``reasons``, which maps the lower-case name of each reason that
            occurred to its ``action``, ``count``, ``places`` and ``meaning``.
        """
        totals = [item.name for item in fields(self) if item.name not in ("unit", "counts", "places")]
        reasons = {
            reason.name.lower(): {
                "action": reason.action,
                "count": self.counts[reason],
                "places": list(self.places[reason]),
                "meaning": reason.meaning,
            }
            for reason in self._found()
        }
        known = {name: getattr(self, name) for name in totals}
        return known | {"dropped": self.dropped, "unit": self.unit, "reasons": reasons}

    def summary(self) -> str:
        """Return the reasons for dropped rows in one line.

        Returns
        -------
        str
            For example ``3 cancelled, 1 filtered``; empty if nothing was dropped.
        """
        dropped = [reason for reason in self._found() if reason.action == "dropped"]
        return ", ".join(f"{self.counts[reason]} {reason.name.lower()}" for reason in dropped)

    def headline(self) -> str:
        """Return the totals in one line."""
        return f"{self.rows:,} rows"

    def __repr__(self) -> str:
        """Return the totals and the counts per reason in one line."""
        counts = ", ".join(f"{self.counts[reason]:,} {reason.name.lower()}" for reason in self._found())
        return f"<{type(self).__name__} {self.headline()}{'; ' if counts else ''}{counts}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [[reason.meaning, reason.action, f"{self.counts[reason]:,}"] for reason in self._found()]
        return html_rows(self.headline(), ["reason", "action", "count"], rows)

    def __str__(self) -> str:
        """Return a table with one line per reason that occurred."""
        found = self._found()
        if not found:
            return self.headline()
        wide = max(len(reason.meaning) for reason in found)
        lines = [self.headline(), f"{'action':<8}{'count':>11}  {'reason':<{wide}}  {self.unit}s"]
        for reason in found:
            places = ", ".join(map(str, self.places[reason]))
            more = ", ..." if self.counts[reason] > len(self.places[reason]) else ""
            lines.append(f"{reason.action:<8}{self.counts[reason]:>11,}  {reason.meaning:<{wide}}  {places}{more}")
        return "\n".join(lines)

    def _found(self) -> list[Why]:
        """Return the reasons that occurred, in the order of their enumeration."""
        first = next(iter(self.counts), None)
        order: Any = type(first) if isinstance(first, Enum) else self.counts
        return [reason for reason in order if reason in self.counts]
