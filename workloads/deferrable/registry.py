"""Deferrable workloads by name, for the command line and environments."""

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
    """Return a one-line description of every settings name.

    Returns
    -------
    dict of str to str
        Descriptions by name, in display order.
    """
    cases = dict.fromkeys((*CORE_CASES, *DURATION_CASES), "The default with this case of the OSDEC paper's Table 4.")
    return {
        "default": "Deferrable jobs and capacity generated from a seed, fitted to the results in the OSDEC paper.",
        "fluctuating": "The same, but with powers of two as sizes and a capacity that follows the time of day.",
        **cases,
    }


def draw(rng: Generator, *, settings: Settings | str = DEFAULT, **changes: Any) -> Scenario:
    """Generate deferrable jobs and the capacity that is left for them.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    settings : Settings or str
        Settings, or a name known to `desim.workloads.deferrable.named`.
    **changes
        New values for parameters of `Settings`; lists are converted to tuples.

    Returns
    -------
    Scenario
        Jobs in order of submission, capacity per slot, and number of slots.

    Raises
    ------
    InvalidConfiguration
        If there are no settings of this name, no such parameter, or a value is out of range.

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
            raise InvalidConfiguration(f"unknown parameter {name!r} of deferrable jobs{near}; expected one of {there}")
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in changes.items()}
    settings = replace(settings, **given)
    for what in ("arrival", "capacity"):
        if f"{what}_phase" in given and not getattr(settings, f"{what}_swing"):
            raise InvalidConfiguration(f"{what}_phase: has no effect without {what}_swing")
    return generate(settings, seed=rng)
