"""Random streams of generators: one meaning of the seed argument, and independent named streams."""

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
        Integer >= 0, or a generator from which four numbers are sampled.

    Returns
    -------
    SeedSequence
        The seed sequence of the argument.

    Raises
    ------
    InvalidConfiguration
        If the seed is neither.
    """
    if isinstance(seed, Generator):
        return SeedSequence(seed.integers(0, 2**32, size=4).tolist())
    if isinstance(seed, int | np.integer) and seed >= 0:
        return SeedSequence(int(seed))
    wanted = "an integer >= 0" if isinstance(seed, int) else "an integer >= 0 or a numpy.random.Generator"
    raise InvalidConfiguration(f"seed: got {seed!r}, expected {wanted}")


class NamedStreams:
    """Independent random generators, one per name: sampling more from one changes no other.

    Parameters
    ----------
    seed : int or numpy.random.Generator
        Seed, see `seed_sequence`.
    """

    def __init__(self, seed: int | Generator) -> None:
        self._entropy = seed_sequence(seed).entropy

    def __call__(self, name: str) -> Generator:
        """Return a new generator; the same seed and name always give the same generator."""
        # The prefix belongs to the meaning of a seed: another text gives other workloads
        return default_rng(SeedSequence(self._entropy, spawn_key=tuple(f"workloads.{name}".encode())))
