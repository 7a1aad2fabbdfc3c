"""The experiments of "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning" (arXiv 2305.06572).

Each module is a figure or table of section 4. ``desim reproduce ogasched figure2 --quick`` runs one;
``desim reproduce ogasched`` runs all of them. The first agent is algorithm 1 as printed; further agents lead from it
step by step to ours. ``register.toml`` lists what the paper does not state, such as machines and units.
"""

from desim.experiments.paper import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="ogasched",
    title="OGASched: multi-server jobs by online gradient ascent",
    source='H. Zhao, S. Deng, Z. Xiang, X. Yan, J. Yin, S. Dustdar and A. Y. Zomaya, "Scheduling multi-server jobs '
    'with sublinear regrets via online learning", arXiv:2305.06572.',
    package="desim.experiments.ogasched",
    modules=("table3", "figure2", "figure7", "figure3", "figure6", "figure5", "figure4"),
)
"""Experiments of the paper, in the order in which they are run."""
