"""What the paper prints: table III and the figures that section 4 states in words (arXiv 2305.06572)."""

from __future__ import annotations

__all__ = ["FIGURE_2_LEADS", "TABLE_III", "lead_percent"]

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


def lead_percent(panel: str, column: int, agent: str) -> float:
    """Return by how many percent OGASched is ahead of a baseline in a cell of table III.

    Parameters
    ----------
    panel : str
        ``"T"``, ``"rho"`` or ``"density"``.
    column : int
        Which value of the parameter, from 0.
    agent : str
        The baseline.

    Returns
    -------
    float
        Percent of the baseline's average reward.
    """
    return 100.0 * (TABLE_III["OGASched"][panel][column] / TABLE_III[agent][panel][column] - 1.0)
