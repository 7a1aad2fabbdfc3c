"""The experiments of "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning" (arXiv 2305.06572).

Every figure and table of section 4 is a module, and ``python -m desim.experiments.ogasched.figure2 --quick`` runs it;
``desim reproduce ogasched`` runs all of them. The first agent is algorithm 1 as printed; steps lead from it to what is
ours. What the paper does not state, machines and units among it, is in ``register.toml``.
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
    claims=True,
)
"""Its experiments, in the order in which they are run."""
