"""OSDEC and its variants as agents: a network scores the jobs whose window is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from desim.agents.deferrable.auxiliary import Auxiliary
from desim.agents.deferrable.fitting import first_fitting
from desim.agents.deferrable.forecasts import Forecast
from desim.agents.deferrable.list_plan import PlannedWaits
from desim.agents.deferrable.pointer import PointerPolicy
from desim.agents.deferrable.score_network import scores_of
from desim.agents.deferrable.score_policy import AttentionPolicy, FixedLengthPolicy, Network, ScorePolicy
from desim.agents.learning.learned import AgentConfig, LearnedAgent
from desim.exceptions import InvalidConfiguration
from desim.problems.deferrable import DeferrableObservation, Placing
from desim.problems.deferrable.encoder import DecodingRule, ScoreEncoder
from desim.problems.deferrable.observation import HORIZON, room_ahead

__all__ = ["ScoreAgent", "ScoreConfig"]


@dataclass(frozen=True)
class ScoreConfig(AgentConfig[ScorePolicy]):
    """Network, and how its scores are read.

    Parameters
    ----------
    network : {"attention", "mlp", "pointer"}
        What scores: a Transformer encoder, a fully connected network over rows in a fixed order, or a pointer network.
    auxiliary : {"none", "high", "low", "both"}
        Which vectors of the auxiliary module it sees; both is OSDEC.
    rule : {"stop", "skip", "reserve"}
        The first job that does not fit ends the slot, as in the paper, is passed over, or keeps its place, for which
        all known jobs have scores.
    threshold : float
        Jobs whose scores are at or below it are held back; -1 holds back none, as in the paper.
    max_jobs : int
        Room for jobs whose window is open, and for those whose window is yet to open.
    num_resources : int
        Resources of the cluster.
    width : int
        Numbers in a token, or units of a layer.
    layers : int
        Encoder layers.
    plans : bool
        Show the network when list plans would start each job.

    Raises
    ------
    InvalidConfiguration
        If an argument is out of range.
    """

    agent_kind: ClassVar[str] = "score"

    network: Network = "attention"
    auxiliary: Auxiliary = "both"
    rule: DecodingRule = "stop"
    threshold: float = -1.0
    max_jobs: int = 32
    num_resources: int = 1
    width: int = 32
    layers: int = 2
    plans: bool = False

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for name, known in (("network", Network), ("auxiliary", Auxiliary), ("rule", DecodingRule)):
            if getattr(self, name) not in get_args(known):
                raise InvalidConfiguration(f"no {name} {getattr(self, name)!r}; there are {', '.join(get_args(known))}")
        for name in ("max_jobs", "num_resources", "width", "layers"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name} is {getattr(self, name)!r}, want a whole number of at least 1")
        if self.network == "pointer" and self.rule == "reserve":
            raise InvalidConfiguration("a pointer network points at jobs to start now: its rule is 'stop' or 'skip'")
        if not -1 <= self.threshold <= 1:
            raise InvalidConfiguration(f"threshold is {self.threshold!r}, want a number from -1 to 1")

    def encoder(self) -> ScoreEncoder:
        """Return the encoder of the observation."""
        return ScoreEncoder(
            self.max_jobs,
            self.num_resources,
            max_future_jobs=self.max_jobs,
            threshold=self.threshold,
            rule=self.rule,
            advice=PlannedWaits() if self.plans else None,
        )

    def policy(self, rng: Generator) -> ScorePolicy:
        """Return a new network, actor and critic, with weights from a generator."""
        encoder, width = self.encoder(), self.width
        if self.network == "mlp":
            return FixedLengthPolicy(encoder, rng, self.auxiliary, 2 * width)
        if self.network == "pointer":
            return PointerPolicy(encoder, rng, self.auxiliary, width)
        return AttentionPolicy(encoder, rng, self.auxiliary, width, self.layers)


class ScoreAgent(LearnedAgent):
    """Starts jobs in the order of the scores that a network gives them, while they fit.

    Parameters
    ----------
    policy : ScorePolicy
        The network; later changes of its weights have no effect.
    config : ScoreConfig
        Which one it is, and how its scores are read.
    forecast : Forecast, optional
        A shield: start only what fits, by this forecast, for as long as it runs.
    name : str
        For records and tables.

    Attributes
    ----------
    policy : ScorePolicy
        The network, for those who want to look into it.
    """

    config_type = ScoreConfig

    def __init__(
        self, policy: ScorePolicy, config: ScoreConfig, *, forecast: Forecast | None = None, name: str = "score"
    ) -> None:
        self.policy = policy
        self.network = scores_of(policy)
        self.config = config
        self.forecast = forecast
        self.name = name
        self.encoder = config.encoder()

    def scores(self, observation: DeferrableObservation) -> NDArray[np.float32]:
        """Return the scores of all rows of jobs, shape (num_scores,); those of rows without a job mean nothing.

        Parameters
        ----------
        observation : DeferrableObservation
            What is seen now.
        """
        return self.network(self.encoder.encode(observation))

    def act(self, observation: DeferrableObservation) -> list[int]:
        """Return the positions of the jobs to be started, in order."""
        if not len(observation.current):
            return []
        scores = self.scores(observation)
        if self.forecast is None:
            return self.encoder.decode(observation, scores)[0] or []
        if self.config.rule == "reserve":
            horizon = max(HORIZON, int(observation.current.duration.max()))
            ahead = self.forecast.predict(observation, horizon - 1)
            return self.encoder.reserving(observation, scores, Placing(observation, horizon, ahead)) or []
        scores = scores[: len(observation.current)]
        order = np.argsort(-scores, kind="stable")
        if self.config.threshold > -1:
            order = order[scores[order] > self.config.threshold]
        steps = int(observation.current.duration.max()) - 1
        room = room_ahead(observation, self.forecast.predict(observation, steps))
        return first_fitting(observation.current, order, room, skip=self.config.rule == "skip")
