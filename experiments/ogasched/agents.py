"""Agents and settings to compare, by their names in tables and figures, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from desim.experiments.frame import Choice
from desim.experiments.ogasched.simulate import HORIZONS, Setting

__all__ = [
    "CONTENTIONS",
    "DEFAULT",
    "FIGURE_2",
    "FIGURE_2_LEADS",
    "FITTED",
    "LARGE",
    "PRINTED",
    "RULES",
    "STEPS",
    "TABLE_III",
    "VARIANTS",
    "chosen",
]

DEFAULT = Setting()
"""Setting of table II."""

FIGURE_2 = replace(DEFAULT, num_slots=8_000, overhead=(0.4, 0.6), contention=11.0)
"""Setting of section 4.1 and the caption of figure 2."""

LARGE = replace(DEFAULT, num_ports=100, num_nodes=1_024, num_slots=10_000, overhead=(0.01, 0.015), contention=5.0)
"""Setting of section 4.3 and the caption of figure 5."""

FITTED = replace(DEFAULT, contention=5.0, memory=6.0)
"""Setting with requests half as large (the paper does not state what it multiplies by 10) and memory in units of 6 GiB.
It brings rewards and ratios of the fixed rules closer to the paper's; it was fitted to these rules only."""

CONTENTIONS: tuple[float, ...] = (0.1, 0.5, 1.0, 5.0, 10.0, 20.0)
"""Contention levels of figures 3 (c) and 6; the paper states where they begin."""

PRINTED = "OGASched"
"""Row of algorithm 1 as printed, in the reading closest to the paper's rewards: jobs are seen first, all
ports take part in the loop, and those without a job are set to 0 after it."""

RULES: Mapping[str, str] = {
    "DRF": "drf",
    "Fairness": "fairness",
    "BinPacking": "bin-packing",
    "Spreading": "spreading",
}
STEPS: Mapping[str, str] = {
    PRINTED: "ogasched",
    "OGASched, capped": "ogasched-capped",
    "exact projection": "exact-oga-reactive-all-forget",
    "exact, with memory": "exact-oga-reactive",
    "line search": "line-search-reactive",
}
"""Agents from the published algorithm to ours; each adds one change to the previous one."""

VARIANTS: Mapping[str, str] = {
    "OGASched, before arrivals": "ogasched-reservation",
    "OGASched, arrived only": "ogasched-arrived",
    "OGASched, absent remembered": "ogasched-remember",
    "OGASched, left-overs kept": "ogasched-leftovers",
    "OGASched, left-overs kept, capped": "ogasched-leftovers-capped",
    "exact, before arrivals": "exact-oga-reservation",
}
"""Other readings of the published algorithm."""

_NAMES = {**STEPS, **VARIANTS, **RULES}


def chosen(*rows: str) -> dict[str, Choice]:
    """Return the agents of given rows."""
    return {row: Choice(_NAMES[row]) for row in rows}


FIGURE_2_LEADS: Mapping[str, float] = {"DRF": 11.33, "Fairness": 7.75, "BinPacking": 13.89, "Spreading": 13.44}
"""Percentages by which OGASched's average reward exceeds those of the baselines (section 4.1)."""

TABLE_III: Mapping[str, Mapping[str, Sequence[float]]] = {
    PRINTED: {
        "T": (2578.53, 2886.33, 2911.37, 3104.98),
        "rho": (1904.87, 2154.18, 3117.29, 2938.22),
        "density": (2816.18, 2904.51, 3127.47),
    },
    "DRF": {
        "T": (2422.47, 2493.02, 2449.23, 2497.85),
        "rho": (1364.53, 2086.59, 2503.01, 2755.41),
        "density": (2417.08, 2786.94, 2795.42),
    },
    "Fairness": {
        "T": (2532.24, 2582.80, 2552.41, 2436.22),
        "rho": (1295.53, 1997.19, 2628.02, 2873.84),
        "density": (2501.54, 2857.60, 2918.98),
    },
    "BinPacking": {
        "T": (2386.01, 2449.15, 2444.32, 2365.13),
        "rho": (1246.39, 1897.79, 2518.98, 2740.19),
        "density": (2374.31, 2757.71, 2829.19),
    },
    "Spreading": {
        "T": (2382.01, 2466.71, 2436.60, 2362.88),
        "rho": (1250.67, 1888.06, 2519.37, 2737.93),
        "density": (2382.87, 2766.07, 2836.37),
    },
}
"""Average rewards in the paper, by agent and parameter."""

PARAMETERS: Mapping[str, Sequence[str]] = {
    "T": tuple(map(str, HORIZONS)),
    "rho": ("0.3", "0.5", "0.7", "0.9"),
    "density": ("2", "2.5", "3"),
}
"""Columns of table III, by parameter."""


def printed(parameter: str) -> dict[str, dict[str, float]]:
    """Return the paper's rewards for a parameter of table III, by row and column."""
    columns = PARAMETERS[parameter]
    return {row: dict(zip(columns, values[parameter], strict=True)) for row, values in TABLE_III.items()}
