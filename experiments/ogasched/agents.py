"""Agents and settings to compare, by their names in tables and figures, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from desim.experiments.claims import read_printed
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


_TABLES = read_printed("desim.experiments.ogasched")
FIGURE_2_LEADS = {row: by_column["lead"] for row, by_column in _TABLES.pop("figure 2").items()}
"""Percentages by which OGASched's average reward exceeds those of the baselines (section 4.1)."""
TABLE_III = _TABLES
"""Average rewards of OGASched and of the rules in the paper, by parameter, row and column."""
