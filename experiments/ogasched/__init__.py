"""The experiments of "Scheduling Multi-Server Jobs with Sublinear Regrets via Online Learning" (arXiv 2305.06572).

Every figure and table of section 4 is a module, and ``python -m desim.experiments.ogasched.figure2 --quick`` runs it;
``desim reproduce ogasched`` runs all of them.

The paper prints no code and no data. What it says of its set-up is kept (table II, captions); machines and requests
are those of `desim.workloads.multiserver`. Absolute rewards are therefore not comparable beyond their order of
magnitude; how far OGASched is ahead of its rivals is what these experiments compare.
"""

from desim.experiments.family import Family

__all__ = ["FAMILY"]

FAMILY = Family(
    name="ogasched",
    title="OGASched: multi-server jobs by online gradient ascent",
    source='H. Zhao, S. Deng, Z. Xiang, X. Yan, J. Yin, S. Dustdar and A. Y. Zomaya, "Scheduling multi-server jobs '
    'with sublinear regrets via online learning", arXiv:2305.06572.',
    package="desim.experiments.ogasched",
    modules=(
        "figure2",
        "table3",
        "figure7",
        "figure6",
        "rivals",
        "figure4",
        "figure3",
        "figure5",
        "margins",
        "regret",
    ),
)
"""Its experiments, in the order in which they are run."""
