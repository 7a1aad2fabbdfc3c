"""Every array of an observation as a vector, for libraries that expect vectors."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.envs.base import Arrays, SchedulingEnv
from desim.exceptions import InvalidConfiguration

__all__ = ["FlatArrays"]


class FlatArrays(gymnasium.ObservationWrapper[Arrays, Any, Arrays], gymnasium.utils.RecordConstructorArgs):
    """An environment whose observations hold the same arrays, each as a vector.

    Stable-Baselines3's networks do this by themselves; its checker recommends it to all others.

    Parameters
    ----------
    env : gymnasium.Env
        One of :mod:`desim.envs`, wrapped or not.

    Raises
    ------
    InvalidConfiguration
        If its observations are no dictionary of arrays with bounds.
    """

    def __init__(self, env: gymnasium.Env[Arrays, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.ObservationWrapper.__init__(self, env)
        space: gymnasium.Space[Any] = env.observation_space
        if not isinstance(space, gymnasium.spaces.Dict):
            raise InvalidConfiguration(f"the observation space is {space}, want a Dict")
        vectors: dict[str, gymnasium.Space[Any]] = {}
        for name, box in space.spaces.items():
            if not isinstance(box, gymnasium.spaces.Box):
                raise InvalidConfiguration(f"the observation space of {name} is {box}, want a Box")
            vectors[name] = gymnasium.spaces.Box(box.low.ravel(), box.high.ravel(), dtype=box.dtype.type)
        self.observation_space: gymnasium.Space[Any] = gymnasium.spaces.Dict(vectors)

    def observation(self, observation: Arrays) -> Arrays:
        """Return an observation with vectors.

        Parameters
        ----------
        observation : dict of str to numpy.ndarray
            That of the environment.

        Returns
        -------
        dict of str to numpy.ndarray
            The same numbers.
        """
        return {name: array.ravel() for name, array in observation.items()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are possible now, as a flat array of truth values."""
        base = self.env.unwrapped
        assert isinstance(base, SchedulingEnv)
        return base.action_masks()
