"""The agents and settings that are compared, by their names in tables and figures; and what the paper prints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from desim.experiments.measured import Choice
from desim.experiments.ogasched.simulate import Setting

__all__ = [
    "AGENTS",
    "CONTENTIONS",
    "DEFAULT",
    "FIGURE_2",
    "FIGURE_2_LEADS",
    "LARGE",
    "MAIN_ROWS",
    "OGASCHED",
    "RIVALS",
    "TABLE_III",
    "VARIANTS",
    "choose",
    "contention_columns",
    "ogasched",
]

# -- settings ---------------------------------------------------------------------------------------

DEFAULT = Setting()
"""Table II."""

FIGURE_2 = replace(DEFAULT, num_slots=8_000, overhead=(0.4, 0.6), contention=11.0)
"""Section 4.1 and the caption of figure 2."""

LARGE = replace(DEFAULT, num_ports=100, num_nodes=1_024, num_slots=10_000, overhead=(0.01, 0.015), contention=5.0)
"""Section 4.3 and the caption of figure 5."""

CONTENTIONS: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Contention levels of figures 3 (c) and 6; the paper says where they begin."""


def contention_columns(levels: tuple[float, ...]) -> dict[str, Setting]:
    """Return the default setting with other contention levels, by the level as it stands over a column."""
    return {f"{level:g}": replace(DEFAULT, contention=float(level)) for level in levels}


# -- agents -----------------------------------------------------------------------------------------


def choose(policy: str, **parameters: Any) -> Choice:
    """Return the choice of an agent with all its parameters.

    Defaults are written out, so that the same agent is the same choice everywhere.
    """
    return Choice(policy, tuple(sorted(parameters.items())))


def ogasched(form: str = "reactive", initial: float = 25.0, decay: float = 0.9999) -> Choice:
    """Return the choice of OGASched; the defaults are those of table II.

    Parameters
    ----------
    form : {"reactive", "reservation"}
        When the arrivals are seen.
    initial : float
        The first step, eta_0.
    decay : float
        Factor from one step to the next, lambda.

    Returns
    -------
    Choice
        In plain values.
    """
    return choose("OGASched", form=form, initial=float(initial), decay=float(decay))


OGASCHED = "OGASched"
"""The row that the others are compared with: the form that sees the jobs of a slot before it answers."""

RIVALS: dict[str, Choice] = {
    "DRF": choose("DRF", filling="ordered"),
    "Fairness": choose("Fairness", among="arrived"),
    "BinPacking": choose("BinPacking", order="workers", most_workers=None),
    "Spreading": choose("Spreading", order="workers", most_workers=None),
}
"""The baselines of the paper, each in the reading that earns most (`desim.experiments.ogasched.rivals` compares
them)."""

VARIANTS: dict[str, Choice] = {
    "OGASched (reservation)": ogasched("reservation"),
    "AdaGrad": choose("AdaGrad", form="reactive", rate=10.0, forget=1.0),
    "AdaGrad (reservation)": choose("AdaGrad", form="reservation", rate=10.0, forget=1.0),
    "OptimisticOGA": choose("OptimisticOGA", initial=25.0, decay=0.9999),
    "LineSearch": choose("LineSearchOGA", form="reactive", steps=3),
    "LineSearch (reservation)": choose("LineSearchOGA", form="reservation", steps=3),
    "BestSlot": choose("BestSlot", relative_gap=1e-6),
}
"""What the paper does not measure: OGASched as its regret bound has it, methods with other steps, and the most that the
jobs of a slot can earn."""

AGENTS: dict[str, Choice] = {OGASCHED: ogasched()} | RIVALS | VARIANTS
"""All rows."""

MAIN_ROWS: dict[str, Choice] = {
    name: AGENTS[name]
    for name in (
        OGASCHED,
        *RIVALS,
        "OGASched (reservation)",
        "AdaGrad",
        "LineSearch",
        "LineSearch (reservation)",
    )
}
"""The rows of most experiments."""

# -- the paper --------------------------------------------------------------------------------------

FIGURE_2_LEADS: dict[str, float] = {"DRF": 11.33, "Fairness": 7.75, "BinPacking": 13.89, "Spreading": 13.44}
"""By how many percent OGASched's average reward is above the baselines' (section 4.1)."""

TABLE_III: dict[str, dict[str, tuple[float, ...]]] = {
    "OGASched": {
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
"""Average rewards by agent and parameter; the columns are T = 1000, 2000, 5000, 10000; rho = 0.3, 0.5, 0.7, 0.9;
density about 2, 2.5, 3."""
