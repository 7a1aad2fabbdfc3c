"""Windows of time in which some cores are not for jobs: maintenance, or a reservation for somebody else.

A window is an outage that is announced: its cores go down when it begins and come back when it ends, as in
:mod:`desim.processes.outages`, and agents know of it from the beginning of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from desim.checks import finite, whole
from desim.exceptions import InvalidConfiguration

__all__ = ["Window", "windows_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """Some cores that are not for jobs for a time.

    Attributes
    ----------
    start, end : float
        Half-open interval, in seconds.
    cores : int
        How many cores. Which ones is decided when the window begins: the highest of those that are free, and if these
        are too few, the highest of those on which jobs run, which are cut; in the end, of those that have failed.
    """

    start: float
    end: float
    cores: int

    def __post_init__(self) -> None:
        """Check the values."""
        finite("the start of a window", self.start, least=0)
        finite("the end of a window", self.end, above=self.start)
        whole("the cores of a window", self.cores, least=1)


def windows_of(windows: Iterable[Window], num_cores: int) -> tuple[Window, ...]:
    """Return windows in order of their starts.

    Parameters
    ----------
    windows : iterable of Window
        In any order; they may overlap.
    num_cores : int
        Cores of the cluster.

    Returns
    -------
    tuple of Window
        The same.

    Raises
    ------
    InvalidConfiguration
        If one is none, or more cores than there are belong to windows at a time.
    """
    given = tuple(windows)
    if wrong := [window for window in given if not isinstance(window, Window)]:
        raise InvalidConfiguration(f"windows holds {wrong[0]!r}, want Windows")
    for window in given:
        together = sum(other.cores for other in given if other.start <= window.start < other.end)
        if together > num_cores:
            raise InvalidConfiguration(
                f"at {window.start} s windows take {together} cores, the cluster has {num_cores}"
            )
    return tuple(sorted(given, key=lambda window: (window.start, window.end)))
