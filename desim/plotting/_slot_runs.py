"""What the figures of slotted runs need of a result: its slots, their span and round widths of bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from desim.exceptions import InvalidConfiguration
from desim.plotting._named_results import named_results, title_of
from desim.plotting._panels import group_digits, panel_pixels
from desim.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = [
    "SlotRun",
    "bin_edges",
    "check_slots",
    "load_slot_runs",
    "nice_count",
    "slot_axis",
    "slot_span",
]

#: Room for a tick of an axis of slots, in pixels at 100 dots an inch.
TICK_WIDTH = 60.0


@dataclass(frozen=True)
class SlotRun:
    """One result of a multi-server cluster.

    Attributes
    ----------
    name : str
        What the figures call it.
    result : Result
        Its tables.
    slots : polars.DataFrame
        Its table of slots, in order, from slot 0 on.
    end : float
        When it ended, in slots. Where jobs last one slot, all slots that have begun are complete.
    """

    name: str
    result: Result
    slots: pl.DataFrame
    end: float

    @property
    def title(self) -> str:
        """The name, shortened, with the status of a run that is not complete."""
        return title_of(self.name, self.result.info)

    @property
    def resources(self) -> list[str]:
        """Names of the resources."""
        return [str(resource) for resource in self.result.info["resources"]]


def load_slot_runs(results: Result | Mapping[str, Result]) -> list[SlotRun]:
    """Read the slots of one result or of several.

    Parameters
    ----------
    results : Result or mapping of str to Result
        One result, which is called after its agent, or several by name.

    Returns
    -------
    list of SlotRun
        In the order of the mapping.

    Raises
    ------
    InvalidConfiguration
        If this is no result, an empty mapping, or a result of another problem than ``multiserver``.
    """
    named = named_results(results, "multiserver", "slots")
    return [_load(name, result) for name, result in named.items()]


def _load(name: str, result: Result) -> SlotRun:
    slots = result.table("slots")
    end = float(len(slots))
    if result.info["holding"] and result.info.get("end_time") is not None:
        end = float(result.info["end_time"])
    return SlotRun(name, result, slots, end)


def check_slots(slots: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the slots to be shown, the end not included, or raise InvalidConfiguration unless they are some."""
    if slots is None:
        return None
    try:
        begin, end = (int(value) for value in slots)
        whole = (begin, end) == tuple(slots)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or not 0 <= begin < end:
        raise InvalidConfiguration(f"slots is {slots!r}, want a pair (begin, end) of whole numbers, 0 <= begin < end")
    return begin, end


def slot_span(runs: list[SlotRun], slots: tuple[int, int] | None) -> tuple[float, float]:
    """Return the span that figures of these runs show, in slots; never empty."""
    return slots or (0.0, max([1.0, *(run.end for run in runs)]))


def nice_count(number: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... that is at least ``number``."""
    power: int = 10 ** max(0, math.floor(math.log10(max(number, 1.0))))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= number)


def bin_edges(begin: float, end: float, width: int) -> NDArray[np.float64]:
    """Return the edges of bins of so many slots: multiples of the width, and both ends; fewer than two for nothing."""
    if not begin < end:
        return np.zeros(0)
    inner = np.arange(math.floor(begin / width) + 1, math.ceil(end / width), dtype=np.float64) * width
    return np.concatenate([[begin], inner, [end]])


def slot_axis(axes: Axes, begin: float, end: float, *, label: bool = True) -> None:
    """Make the x axis one of slots that shows [begin, end]; slot t lasts from t to t + 1."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(begin, end)
    most = max(2, min(10, int(panel_pixels(axes)[0] / TICK_WIDTH)))
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 5, 10]))
    group_digits(axes.xaxis)
    if label:
        axes.set_xlabel("slot")
