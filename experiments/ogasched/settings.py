"""The settings of the paper's experiments, by their figures."""

from __future__ import annotations

from dataclasses import replace

from desim.experiments.ogasched.simulating import Setting

__all__ = ["CONTENTIONS", "DEFAULT", "FIGURE_2", "LARGE", "contention_columns"]

DEFAULT = Setting()
"""Table II."""

FIGURE_2 = replace(DEFAULT, num_slots=8_000, overhead=(0.4, 0.6), contention=11.0)
"""Section 4.1 and the caption of figure 2."""

LARGE = replace(DEFAULT, num_ports=100, num_nodes=1_024, num_slots=10_000, overhead=(0.01, 0.015), contention=5.0)
"""Section 4.3 and the caption of figure 5."""

CONTENTIONS: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Contention levels of figures 3 (c) and 6; the paper says where they begin."""


def contention_columns(levels: tuple[float, ...]) -> dict[str, Setting]:
    """Return the default setting with other contention levels.

    Parameters
    ----------
    levels : tuple of float
        What requests are multiplied by.

    Returns
    -------
    dict of str to Setting
        By the level, as it stands over a column.
    """
    return {f"{level:g}": replace(DEFAULT, contention=float(level)) for level in levels}
