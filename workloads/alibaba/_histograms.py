"""Histograms as published: values and how often each was observed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration, WorkloadError
from desim.workloads._columns import LARGEST, Floats
from desim.workloads._workflow_json import Entries, object_of, shown

__all__ = ["Histogram", "histogram_of", "histograms_of"]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Values and how often each was observed.

    Parameters
    ----------
    values : numpy.ndarray of float
        Ascending, at least 0.
    counts : numpy.ndarray of float
        One a value, at least 0, not all 0.
    """

    values: Floats
    counts: Floats

    @cached_property
    def _cumulative(self) -> Floats:
        total: Floats = np.cumsum(self.counts) / self.counts.sum()
        return total

    @property
    def mean(self) -> float:
        """Mean of the observations."""
        return float(self.values @ self.counts / self.counts.sum())

    def draw(self, rng: Generator, size: int) -> Floats:
        """Return independent observations.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where randomness comes from: one number an observation.
        size : int
            How many.

        Returns
        -------
        numpy.ndarray of shape (size,)
            Values, each as often as it was observed.
        """
        last = int(np.flatnonzero(self.counts)[-1])  # rounding may leave the end of the sum below 1
        drawn: Floats = self.values[np.minimum(np.searchsorted(self._cumulative, rng.random(size), side="right"), last)]
        return drawn

    def between(self, what: str, least: float, most: float) -> Histogram:
        """Return the observations in a range.

        Parameters
        ----------
        what : str
            What is observed, for messages.
        least, most : float
            The range, with its ends.

        Returns
        -------
        Histogram
            Of the same values' counts.

        Raises
        ------
        InvalidConfiguration
            If there is none.
        """
        inside: NDArray[np.bool_] = (self.values >= least) & (self.values <= most)
        if not self.counts[inside].any():
            raise InvalidConfiguration(f"{what}: the model has no observation from {least:g} to {most:g}")
        return Histogram(self.values[inside], self.counts[inside])


def histogram_of(where: str, entries: Entries, *, least: float = 0.0, whole: bool = False) -> Histogram:
    """Check a histogram of a document.

    Parameters
    ----------
    where : str
        File and entry, for messages.
    entries : dict
        With ``value`` and ``count``.
    least : float
        The smallest value that is allowed.
    whole : bool
        Whether values are whole numbers.

    Returns
    -------
    Histogram
        As given.

    Raises
    ------
    WorkloadError
        If it is none.
    """
    values, counts = (_numbers(where, entries.get(key), key) for key in ("value", "count"))
    if len(values) != len(counts):
        raise WorkloadError(f"{where}: {len(values)} values and {len(counts)} counts")
    if not (np.diff(values) > 0).all():
        raise WorkloadError(f"{where}: value is not ascending")
    if (values < least).any() or (whole and (values % 1).any()):
        raise WorkloadError(f"{where}: value holds other than {'whole ' if whole else ''}numbers from {least:g} on")
    if not counts.any():
        raise WorkloadError(f"{where}: counts nothing")
    return Histogram(values, counts)


def histograms_of(source: str, document: Entries, key: str, by: str, first: int) -> dict[int, Histogram]:
    """Check the histograms that a document gives for each of several whole numbers.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    document : dict
        The document.
    key, by : str
        Names of the entry, and of the entry in it that holds the histograms.
    first : int
        The number from which on they must be given, without gaps.

    Returns
    -------
    dict of int to Histogram
        In ascending order of the number; values are whole numbers from 1 on.

    Raises
    ------
    WorkloadError
        If there are none.
    """
    where = f"{source}: {key}.{by}"
    given = object_of(f"{source}: {key}", object_of(source, document, key), by)
    found = {}
    for name in given:
        if not name.isascii() or not name.isdigit() or len(name) > 4 or int(name) in found:
            raise WorkloadError(f"{where}: {shown(name)} is not a whole number of its own")
        found[int(name)] = histogram_of(f"{where}.{name}", object_of(where, given, name), least=1.0, whole=True)
    for number in range(first, max(found, default=first) + 1):
        if number not in found:
            raise WorkloadError(f"{where}: {number} is missing")
    return {number: found[number] for number in sorted(found)}


def _numbers(where: str, values: Any, key: str) -> Floats:
    if not isinstance(values, list):
        raise WorkloadError(f"{where}: {key} is {shown(values)}, want a JSON list")
    for at, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            raise WorkloadError(f"{where}: {key}[{at}] is {shown(value)}, want a number between 0 and 1e15")
    return np.array(values, dtype=np.float64)
