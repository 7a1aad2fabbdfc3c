"""Episodes with an agent: several together, so that a network decides for all of them at once.

What an agent does is what it does in :func:`desim.simulate`. Beside the records, it is counted how often and how far
the queue was longer than the window, and what was earned under several rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from desim import Result, Simulation
from desim.agents.batch.split_window import SplitWindowAgent
from desim.agents.batch.window_rules import WindowRule
from desim.agents.learning.policy import to_tensors
from desim.core import Agent
from desim.problems.batch import BatchCluster
from desim.problems.batch.env import make_reward

__all__ = ["REWARDS", "Played", "play"]

REWARDS = ("paper", "scaled", "waiting")
"""The rewards that are collected, see :mod:`desim.problems.batch.env`."""


class Played(NamedTuple):
    """An episode that is over.

    Attributes
    ----------
    result : Result
        Its records.
    counts : dict of str to float or None
        ``num_decisions``; ``num_cycles``, which the agent has ended; ``invisible_jobs``, by which the queue was longer
        than the window, and ``hidden_share`` of the decisions at which it was, means over decisions;
        ``return_REWARD``. All but the first are None for an agent without a window.
    """

    result: Result
    counts: Mapping[str, float | None]


class _Episode:
    """A simulation, its pending decision, and what is counted."""

    def __init__(self, problem: BatchCluster, seed: int, window: int | None) -> None:
        self.simulation = Simulation(problem, seed=seed, log_actions=False)
        self.window = window
        self.rewards = {} if window is None else {name: make_reward(name) for name in REWARDS}
        for reward in self.rewards.values():
            reward.reset(self.simulation)
        self.decisions = self.cycles = self.hidden = self.invisible = 0
        self.decision = self.simulation.advance()

    def answer(self, answer: Any) -> None:
        """Answer the decision and go on to the next."""
        assert self.decision is not None
        self.decisions += 1
        if self.window is not None:
            beyond = len(self.decision.observation.queue) - self.window
            if beyond > 0:
                self.hidden += 1
                self.invisible += beyond
            self.cycles += answer is None
        self.decision.answer(answer)
        for reward in self.rewards.values():
            reward.answered(answer)  # it sees what the answer has done
        self.decision = self.simulation.advance()

    def end(self, name: str) -> Played:
        """Close the records."""
        returns = {f"return_{reward}": self.rewards[reward].collect() if self.rewards else None for reward in REWARDS}
        seen = self.window is not None
        number = max(self.decisions, 1)
        counts = {
            "num_decisions": self.decisions,
            "num_cycles": self.cycles if seen else None,
            "invisible_jobs": self.invisible / number if seen else None,
            "hidden_share": self.hidden / number if seen else None,
            **returns,
        }
        return Played(self.simulation.finish(agent=name), counts)


def play(problems: Sequence[BatchCluster], make_agent: Callable[[], Agent], seeds: Sequence[int]) -> list[Played]:
    """Let an agent act through episodes.

    Parameters
    ----------
    problems : sequence of BatchCluster
        The episodes.
    make_agent : callable
        Returns a new agent.
    seeds : sequence of int
        One for each episode, as for :func:`desim.simulate`.

    Returns
    -------
    list of Played
        In order.
    """
    agent = make_agent()
    name = getattr(agent, "name", type(agent).__name__)
    window = _window_of(agent)
    if isinstance(agent, SplitWindowAgent):
        episodes = [_Episode(problem, seed, window) for problem, seed in zip(problems, seeds, strict=True)]
        for one in episodes:
            agent.reset(one.simulation.problem.describe(), one.simulation.stream("agent"))
        _play_together(agent, episodes)
        return [one.end(name) for one in episodes]
    played = []
    for problem, seed in zip(problems, seeds, strict=True):
        one = _Episode(problem, seed, window)
        reset = getattr(agent, "reset", None)
        if reset is not None:
            reset(one.simulation.problem.describe(), one.simulation.stream("agent"))
        while one.decision is not None:
            one.answer(agent.act(one.decision.observation))
        played.append(one.end(name))
    return played


def _window_of(agent: Agent) -> int | None:
    """Return the size of the window that an agent sees; None if it sees the whole queue."""
    if isinstance(agent, SplitWindowAgent):
        return agent.encoder.window.size
    return agent.window.size if isinstance(agent, WindowRule) else None


def _play_together(agent: SplitWindowAgent, episodes: Sequence[_Episode]) -> None:
    """Take the most likely action in all episodes at once, again and again."""
    encoder = agent.encoder
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches are small, and threads that wait for them only cost
    try:
        with torch.inference_mode():
            while asking := [one for one in episodes if _goes_to_choice(agent, one)]:
                seen = [one.decision.observation for one in asking if one.decision is not None]
                encoded = [encoder.encode(observation) for observation in seen]
                batch = {key: np.stack([arrays[key] for arrays in encoded]) for key in encoded[0]}
                distribution, _ = agent.policy(to_tensors(batch))
                for one, observation, action in zip(asking, seen, distribution.mode().tolist(), strict=True):
                    one.answer(encoder.decode(observation, action)[0])
    finally:
        torch.set_num_threads(threads)


def _goes_to_choice(agent: SplitWindowAgent, one: _Episode) -> bool:
    """Wait where there is no choice; tell whether a decision is left."""
    while one.decision is not None and agent.encoder.forced(one.decision.observation):
        one.answer(None)
    return one.decision is not None
