"""Windows of all sizes and splits: what figures 5 and 6 measure, from the same runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from desim.experiments.dbf.agents import LEARNED, window_rows
from desim.experiments.dbf.options import Options
from desim.experiments.dbf.paper import SIZES
from desim.experiments.dbf.simulating import Setting
from desim.experiments.dbf.study import Panel, Study, carry_out
from desim.experiments.dbf.weights import find_weights

__all__ = ["WindowOptions", "measure_windows", "untrained"]

#: With --quick: the sizes.
QUICK_SIZES = (8, 20)


@dataclass(frozen=True)
class WindowOptions(Options):
    """Windows of several sizes; with ``quick`` those of 8 and 20 slots, with few of their splits.

    Attributes
    ----------
    sizes : tuple of int
        Slots of the windows.
    tails : tuple of int
        Slots at the tail, of each size those that it can have; all if empty.
    """

    sizes: tuple[int, ...] = SIZES
    tails: tuple[int, ...] = ()

    def tails_of(self, size: int) -> tuple[int, ...]:
        """Return the numbers of slots at the tail."""
        if self.tails:
            return tuple(tail for tail in self.tails if tail <= size)
        return (0, 1, size // 2) if self.quick else tuple(range(size + 1))


def untrained(size: int, tails: Sequence[int], trained: Container[str]) -> list[str]:
    """Say for which tails of a size there is no learned agent, in a line at most."""
    missing = [str(tail) for tail in tails if str(tail) not in trained]
    if len(missing) == len(tails):
        return [f"M = {size}"]
    return [f"M = {size} with a tail of {', '.join(missing)}"] if missing else []


def measure_windows(title: str, options: WindowOptions) -> tuple[Study, list[str]]:
    """Measure learned agents and controls in all windows.

    Parameters
    ----------
    title : str
        What it is.
    options : WindowOptions
        Windows, episodes, directories.

    Returns
    -------
    tuple of Study and list of str
        What was measured, and the windows for which nothing is trained.
    """
    weights = find_weights(options.weights)
    sizes = tuple(size for size in options.sizes if size in QUICK_SIZES) if options.quick else options.sizes
    panels, missing = [], []
    for size in sizes:
        tails = options.tails_of(size)
        rows = window_rows(weights, size, tails)
        missing += untrained(size, tails, rows[LEARNED])
        panels.append(Panel(f"M = {size}", "tail", {str(tail): Setting() for tail in tails}, rows))
    return carry_out(title, panels, options, reference="shortest in the window"), missing
