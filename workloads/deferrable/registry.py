"""Deferrable jobs by name, for the command line and environments."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from numpy.random import Generator

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.workloads.deferrable.generator import (
    CORE_CASES,
    DEFAULT,
    DURATION_CASES,
    Scenario,
    Settings,
    generate,
    named,
)

__all__ = ["descriptions", "draw"]


def descriptions() -> dict[str, str]:
    """Return the names of the settings, with a line on each.

    Returns
    -------
    dict of str to str
        In the order in which they are listed.
    """
    cases = dict.fromkeys((*CORE_CASES, *DURATION_CASES), "The first one with this case of the OSDEC paper's table 4.")
    return {
        "default": "Deferrable jobs and capacity drawn from a seed, fitted to what the OSDEC paper tells.",
        "fluctuating": "The same with sizes that are powers of two and a capacity that follows the time of the day.",
        **cases,
    }


def draw(rng: Generator, *, settings: Settings | str = DEFAULT, **changes: Any) -> Scenario:
    """Draw deferrable jobs and the capacity that is left for them.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    settings : Settings or str
        See `Settings`; or a name that `desim.workloads.deferrable.named` knows.
    **changes
        Parameters of `Settings` that are to be others; lists stand for tuples.

    Returns
    -------
    Scenario
        Jobs in order of submission, capacity of each slot, and number of slots.

    Raises
    ------
    InvalidConfiguration
        If there are no settings of that name, no such parameter, or it is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> draw(np.random.default_rng(1), settings="fluctuating", num_slots=20).num_slots
    20
    """
    if isinstance(settings, str):
        settings = named(settings)
    known = [field.name for field in fields(settings)]
    for name in changes:
        if name not in known:
            near, there = did_you_mean(name, known), ", ".join(known)
            raise InvalidConfiguration(f"deferrable jobs have no parameter {name!r}{near}; there are {there}")
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in changes.items()}
    settings = replace(settings, **given)
    return generate(settings, seed=rng)
