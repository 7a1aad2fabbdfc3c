"""What the reports of readers share: how often each reason occurred, and where first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Ledger"]


class Reason(Protocol):
    """A member of an enumeration of reasons."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def action(self) -> str:
        """What was done, such as ``"dropped"``."""

    @property
    def meaning(self) -> str:
        """Why, in words."""


Why = TypeVar("Why", bound=Reason)
Place = TypeVar("Place")


class Ledger(Generic[Why, Place]):
    """Counts by reason; a base of reports, which have ``counts`` and ``places`` as fields."""

    counts: dict[Why, int]
    places: dict[Why, list[Place]]

    def enter(self, reason: Why, places: Iterable[Place], examples: int) -> None:
        """Count one for each place.

        Parameters
        ----------
        reason : enumeration member
            Why.
        places : iterable
            Where, in the order in which they were found.
        examples : int
            How many places are kept.
        """
        found = list(places)
        if not found:
            return
        self.counts[reason] = self.counts.get(reason, 0) + len(found)
        known = self.places.setdefault(reason, [])
        known.extend(found[: examples - len(known)])

    def count(self, reason: Why) -> int:
        """Return how many were counted for a reason.

        Parameters
        ----------
        reason : enumeration member
            Any of the report's reasons.

        Returns
        -------
        int
            0 if it never occurred.
        """
        return self.counts.get(reason, 0)

    @property
    def dropped(self) -> int:
        """How many were left out."""
        return sum(count for reason, count in self.counts.items() if reason.action == "dropped")

    def reasons(self) -> dict[str, dict[str, Any]]:
        """Return what occurred as plain values.

        Returns
        -------
        dict
            By the reason's name in lower case, in the order of the enumeration: ``action``, ``count``, ``places`` and
            ``meaning``.
        """
        return {
            reason.name.lower(): {
                "action": reason.action,
                "count": self.counts[reason],
                "places": list(self.places[reason]),
                "meaning": reason.meaning,
            }
            for reason in self._found()
        }

    def summary(self) -> str:
        """Return the reasons why something was dropped in one line.

        Returns
        -------
        str
            Such as ``3 cancelled, 1 filtered``; empty if nothing was dropped.
        """
        dropped = [reason for reason in self._found() if reason.action == "dropped"]
        return ", ".join(f"{self.counts[reason]} {reason.name.lower()}" for reason in dropped)

    def table(self, first: str, unit: str) -> str:
        """Return a line, and one for each reason that occurred.

        Parameters
        ----------
        first : str
            The line.
        unit : str
            What places are called.

        Returns
        -------
        str
            The first line alone if there is no reason.
        """
        found = self._found()
        if not found:
            return first
        wide = max(len(reason.meaning) for reason in found)
        lines = [first, f"{'action':<8}{'count':>11}  {'reason':<{wide}}  {unit}"]
        for reason in found:
            places = ", ".join(map(str, self.places[reason]))
            more = ", ..." if self.counts[reason] > len(self.places[reason]) else ""
            lines.append(f"{reason.action:<8}{self.counts[reason]:>11,}  {reason.meaning:<{wide}}  {places}{more}")
        return "\n".join(lines)

    def _found(self) -> list[Why]:
        """Return the reasons that occurred, in the order of their enumeration."""
        order: Any = type(next(iter(self.counts))) if self.counts else ()
        return [reason for reason in order if reason in self.counts]
