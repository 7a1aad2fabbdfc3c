"""One meaning of the seed argument for all generators of workloads."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, SeedSequence

from desim.exceptions import InvalidConfiguration

__all__ = ["seed_sequence"]


def seed_sequence(seed: int | Generator) -> SeedSequence:
    """Return the seed sequence that an argument stands for.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        A number of at least 0, or a generator from which four numbers are drawn.

    Returns
    -------
    SeedSequence
        A fresh one.

    Raises
    ------
    InvalidConfiguration
        If it is something else.
    """
    if isinstance(seed, Generator):
        return SeedSequence(seed.integers(0, 2**32, size=4).tolist())
    if isinstance(seed, int | np.integer) and seed >= 0:
        return SeedSequence(int(seed))
    raise InvalidConfiguration(f"seed is {seed!r}, want a whole number of at least 0 or a numpy Generator")
