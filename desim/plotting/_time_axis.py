"""Axes of time: the data stay in seconds, ticks and label speak in the unit that suits the span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, NullLocator

from desim.plotting._time import DURATIONS, nice_width, time_unit

__all__ = ["TimeLocator", "color_bar", "duration_axis", "time_axis"]


MOST_TICKS = 9


class TimeLocator(Locator):
    """Ticks at round times, also after zooming.

    Parameters
    ----------
    unit : float
        The unit of the labels, in seconds; ticks that are closer than half of it have round decimals.
    """

    def __init__(self, unit: float = 1.0) -> None:
        self._unit = unit

    def __call__(self) -> Sequence[float]:
        """Return the ticks of the visible interval, in seconds."""
        if self.axis is None:
            return []
        low, high = self.axis.get_view_interval()
        return self.tick_values(float(low), float(high))

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the round times between two times, in seconds."""
        low, high = sorted((vmin, vmax))
        if not high > low:
            return [low]
        width = (high - low) / MOST_TICKS
        width = nice_width(width) if width > self._unit / 2 else nice_width(width / self._unit) * self._unit
        first, last = np.ceil(low / width - 1e-9), np.floor(high / width + 1e-9)
        return [float(tick) for tick in np.arange(first, last + 1) * width + 0.0]


def time_axis(axes: Axes, begin: float, end: float, *, label: bool = True) -> None:
    """Make the x axis a time axis that shows [begin, end], in seconds."""
    unit = time_unit(end - begin)
    axes.set_xlim(begin, end if end > begin else begin + 1.0)
    axes.xaxis.set_major_locator(TimeLocator(unit.seconds))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.seconds:.10g}"))
    if label:
        axes.set_xlabel(f"time ({unit.name})")


def duration_axis(axis: Axis, longest: float) -> None:
    """Mark durations from 0 to ``longest`` seconds on a logarithmic axis with their own units."""
    axis.set_major_locator(_duration_marks(longest))
    axis.set_major_formatter(_duration_names())
    axis.set_minor_locator(NullLocator())


def _duration_marks(longest: float) -> FixedLocator:
    return FixedLocator([mark for mark in DURATIONS if mark <= longest])


def _duration_names() -> FuncFormatter:
    return FuncFormatter(lambda value, _: DURATIONS.get(float(value), f"{value:g} s"))


def color_bar(panels: Sequence[Axes], scale: ScalarMappable, label: str) -> None:
    """Add a colour bar on the right of panels; durations get marks with units."""
    figure = panels[0].figure
    bar = figure.colorbar(
        scale, ax=panels[0] if len(panels) == 1 else list(panels), label=label, pad=0.015, aspect=30, fraction=0.05
    )
    low, high = scale.get_clim()
    assert low is not None and high is not None
    if isinstance(scale.norm, SymLogNorm):
        bar.locator, bar.minorlocator = _duration_marks(high), NullLocator()
        bar.formatter = _duration_names()
    elif label.endswith("time"):
        unit = time_unit(high - low)
        bar.locator = TimeLocator(unit.seconds)
        bar.formatter = FuncFormatter(lambda value, _: f"{value / unit.seconds:.10g}")
        bar.set_label(f"{label} ({unit.name})")
    elif isinstance(scale.norm, LogNorm):
        bar.formatter = FuncFormatter(lambda value, _: f"{value:g}")
        bar.minorlocator = NullLocator()
    bar.update_ticks()
