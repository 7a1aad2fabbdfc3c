"""Agents and settings to compare, by their names in tables and figures, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from desim.experiments.frame import Choice
from desim.experiments.ogasched.simulate import Setting

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
    "T": {
        "1000": (2578.53, 2422.47, 2532.24, 2386.01, 2382.01),
        "2000": (2886.33, 2493.02, 2582.80, 2449.15, 2466.71),
        "5000": (2911.37, 2449.23, 2552.41, 2444.32, 2436.60),
        "10000": (3104.98, 2497.85, 2436.22, 2365.13, 2362.88),
    },
    "rho": {
        "0.3": (1904.87, 1364.53, 1295.53, 1246.39, 1250.67),
        "0.5": (2154.18, 2086.59, 1997.19, 1897.79, 1888.06),
        "0.7": (3117.29, 2503.01, 2628.02, 2518.98, 2519.37),
        "0.9": (2938.22, 2755.41, 2873.84, 2740.19, 2737.93),
    },
    "density": {
        "2": (2816.18, 2417.08, 2501.54, 2374.31, 2382.87),
        "2.5": (2904.51, 2786.94, 2857.60, 2757.71, 2766.07),
        "3": (3127.47, 2795.42, 2918.98, 2829.19, 2836.37),
    },
}
"""Average rewards of OGASched and of the rules in the paper, by parameter and column."""


def printed(parameter: str) -> dict[str, dict[str, float]]:
    """Return the paper's rewards for a parameter of table III, by row and column."""
    columns = TABLE_III[parameter]
    rows = enumerate((PRINTED, *RULES))
    return {row: {column: rewards[place] for column, rewards in columns.items()} for place, row in rows}
