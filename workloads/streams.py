"""Random streams of generators: one meaning of the seed argument, and independent streams by name."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from desim.exceptions import InvalidConfiguration

__all__ = ["NamedStreams", "seed_sequence"]


def seed_sequence(seed: int | Generator) -> SeedSequence:
    """Return a fresh seed sequence.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        A number of at least 0, or a generator from which four numbers are drawn.

    Returns
    -------
    SeedSequence
        What the argument stands for.

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


class NamedStreams:
    """Independent generators, one a name, so that drawing more from one changes none of the others.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        See `seed_sequence`.
    """

    def __init__(self, seed: int | Generator) -> None:
        self._entropy = seed_sequence(seed).entropy

    def __call__(self, name: str) -> Generator:
        """Return a new generator: the same one for the same seed and name."""
        # The text is part of what a seed means
        return default_rng(SeedSequence(self._entropy, spawn_key=tuple(f"workloads.{name}".encode())))
