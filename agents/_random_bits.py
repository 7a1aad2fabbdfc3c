"""Random numbers of compiled functions. This module imports numba; see :func:`desim.agents.search.decoders`."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from desim.agents.search import compiled

__all__ = ["next_bits"]


@partial(compiled, allocates=False)
def next_bits(state: NDArray[np.uint64]) -> np.uint64:
    """Return 64 random bits and advance the state, shape (1,): splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.uint64 = bits ^ (bits >> np.uint64(31))
    return mixed
