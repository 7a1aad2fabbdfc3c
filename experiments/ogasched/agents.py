"""The agents that the experiments compare, by the names of their rows."""

from __future__ import annotations

from typing import Any

from desim.experiments.ogasched.simulating import Choice

__all__ = ["AGENTS", "MAIN_ROWS", "OGASCHED", "RIVALS", "VARIANTS", "choose", "ogasched"]


def choose(policy: str, **parameters: Any) -> Choice:
    """Return the choice of an agent.

    Parameters
    ----------
    policy : str
        Its class, as `simulating.create` knows it.
    **parameters
        All that it is called with. Defaults are written out, so that the same agent is the same choice everywhere.

    Returns
    -------
    Choice
        In plain values.
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
}
"""What the paper does not measure: OGASched as its regret bound has it, and methods with other steps."""

AGENTS: dict[str, Choice] = {OGASCHED: ogasched()} | RIVALS | VARIANTS
"""All rows."""

MAIN_ROWS: dict[str, Choice] = {name: AGENTS[name] for name in (OGASCHED, *RIVALS, "OGASched (reservation)", "AdaGrad")}
"""The rows of most experiments."""
