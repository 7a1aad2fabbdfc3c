"""DBF as published: fully connected networks over core times and a split window, without an action mask.

Source: Wang, Harwood and Rodriguez, "Deep Back-Filling: a split window technique for deep online cluster job
scheduling", HPCC 2022. ``experiments/dbf/register.toml`` lists what the paper leaves open. For desim's version of the
idea, with job features and a mask, see :class:`~desim.agents.batch.split_window.SplitWindowAgent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from desim.agents.batch.split_window import WindowAgent
from desim.agents.learning.learned import AgentConfig
from desim.agents.learning.policy import MLPPolicy, NumpyMLP, array_of, computes_as, one_thread, to_tensors
from desim.envs.base import Arrays
from desim.exceptions import InvalidConfiguration
from desim.problems.batch.encoders import FlatEncoder, SplitWindow

__all__ = ["DBFAgent", "DBFConfig"]


@dataclass(frozen=True)
class DBFConfig(AgentConfig[MLPPolicy]):
    """Window and network of DBF.

    Parameters
    ----------
    head : int
        Number of slots of the window at the head of the queue.
    tail : int
        Number of slots of the window at the tail of the queue.
    hidden : tuple of int
        Numbers of units of the hidden layers, in the actor and in the critic.
    activation : {"relu", "tanh"}
        Activation function between layers; the paper does not state one.
    sampled : bool
        Whether actions are sampled after training too, instead of taking the most likely ones; the paper does not say.
    num_cores : int
        Number of cores of the cluster.
    """

    agent_kind: ClassVar[str] = "dbf"
    acts_with: ClassVar[str] = "actor."

    head: int = 20
    tail: int = 0
    hidden: tuple[int, ...] = (1024, 512, 256)
    activation: str = "relu"
    sampled: bool = True
    num_cores: int = 256

    def __post_init__(self) -> None:
        """Raise InvalidConfiguration if a value is out of range."""
        self.encoder()

    def encoder(self) -> FlatEncoder:
        """Return the encoder of the observation."""
        return FlatEncoder(SplitWindow(self.head, self.tail), self.num_cores)

    def policy(self, rng: np.random.Generator) -> MLPPolicy:
        """Return a new network (actor and critic) with weights from a random generator."""
        size = self.head + self.tail
        inputs = {"cores": self.num_cores, "jobs": 3 * size}
        return MLPPolicy(inputs, size + 1, rng, hidden=self.hidden, activation=self.activation, apart=True)


class DBFAgent(WindowAgent):
    """Agent that picks slots of a split window until it picks none, or a job that cannot start, which ends the cycle.

    Parameters
    ----------
    policy : MLPPolicy
        Network; later changes of its weights may have no effect.
    config : DBFConfig
        Window and network of the agent.
    name : str, optional
        Name for records and tables. Default: ``"dbf"``.
    """

    config_type = DBFConfig
    policy: MLPPolicy

    def __init__(self, policy: MLPPolicy, config: DBFConfig, *, name: str | None = None) -> None:
        super().__init__(policy, config, name=name)
        quick = computes_as(policy, MLPPolicy, "distribution") and NumpyMLP.can_copy(policy.actor)
        self._actor = NumpyMLP(policy.actor) if quick else None

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Begin a run; raise InvalidConfiguration if it has nodes or another number of cores than the network."""
        super().reset(simulation_info, rng)
        cores = simulation_info.get("num_cores", self.config.num_cores)
        if cores != self.config.num_cores:
            raise InvalidConfiguration(
                f"{self.name}: got a cluster of {cores} cores, expected {self.config.num_cores} as in training"
            )
        self._rng = rng

    def chosen(self, encoded: Arrays) -> int:
        """Return a sampled action, or the most likely one."""
        scores = self._scores(encoded)
        # Gumbel noise: the argmax of scores plus noise is a sample from the softmax of the scores
        noise = self._rng.gumbel(size=scores.shape) if self.config.sampled else 0.0
        return int((scores + noise).argmax())

    def _scores(self, seen: Arrays) -> NDArray[np.floating]:
        if self._actor is not None:
            return self._actor(np.concatenate([seen["cores"], seen["jobs"].ravel()]))
        with torch.inference_mode(), one_thread():
            shown = to_tensors({name: array[None] for name, array in seen.items()})
            return array_of(self.policy.distribution(shown).log_probabilities[0])
