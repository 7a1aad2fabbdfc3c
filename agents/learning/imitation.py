"""Behavioural cloning: a policy learns to do what an expert would do, as a warm start.

Experts are rules over what the policy sees, or any agents of the problem, which see all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from desim.agents.learning.experience import Arrays, Experience
from desim.agents.learning.learner import Learner, Samples, between
from desim.agents.learning.policy import Distribution, one_thread, to_tensors
from desim.core import Agent, prepare_agent
from desim.envs.base import InvertibleEncoder, SchedulingEnv
from desim.exceptions import InvalidConfiguration

__all__ = ["EXPERT", "Expert", "ExpertLabelledEnv", "advice", "clone", "imitate"]

EXPERT = "expert"
"""Part of an observation: what an expert would do about it."""

UNKNOWN = -1
"""What stands there where no action of the policy would be the same; NaN if actions are several numbers."""

Expert = Callable[[Arrays], NDArray[Any]]
"""Returns the action for each of a batch of encoded observations."""


class ExpertLabelledEnv(gymnasium.Wrapper[Arrays, Any, Arrays, Any]):
    """An environment whose observations tell what an agent would do, as an action under :data:`EXPERT`.

    The agent sees what agents see, not what is encoded. It is asked at every decision, whatever was done at the last
    one, so that it has to do without a memory of its own answers.

    Parameters
    ----------
    env : SchedulingEnv
        With an encoder that is a :class:`~desim.envs.base.InvertibleEncoder`.
    agent : Agent
        The expert.

    Raises
    ------
    InvalidConfiguration
        If its answers cannot be told in actions.
    """

    def __init__(self, env: SchedulingEnv, agent: Agent) -> None:
        super().__init__(env)
        name = getattr(agent, "name", type(agent).__name__)
        if not hasattr(env.encoder, "encode_action"):
            raise InvalidConfiguration(f"{type(env.encoder).__name__} cannot tell an answer of {name} as an action")
        self._base, self._agent = env, agent
        env.forks = hasattr(agent, "attach")
        shape = env.action_space.shape or ()
        self._unknown = np.full(shape, np.nan, np.float32) if shape else np.array(UNKNOWN, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode, of the agent too."""
        encoded, info = self._base.reset(seed=seed, options=options)
        prepare_agent(self._agent, self._base.simulation)
        return self._with_advice(encoded), info

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Act; what the agent says is not followed."""
        encoded, reward, terminated, truncated, info = self._base.step(action)
        return self._with_advice(encoded), reward, terminated, truncated, info

    def _with_advice(self, encoded: Arrays) -> Arrays:
        decision, action = self._base.decision, None
        if decision is not None:
            seen = decision.observation
            action = cast(InvertibleEncoder, self._base.encoder).encode_action(seen, self._agent.act(seen))
        told = self._unknown if action is None else np.asarray(action, self._unknown.dtype)
        return encoded | {EXPERT: told}


def advice(shown: Arrays) -> NDArray[Any]:
    """Return what the agent of :class:`ExpertLabelledEnv` would do: the expert of such environments."""
    return shown[EXPERT]


def _improbability(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return minus the logarithm of the probability of actions, shape (B,)."""
    return -distribution.log_prob(wanted)


Compare = Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]]
"""Returns of some samples, by their places, the loss, and for which of them policy and expert agree."""


@one_thread()  # sums of gradients from several threads would not be the same again
def imitate(
    learner: Learner,
    collect: Callable[[], Experience],
    expert: Expert,
    *,
    rounds: int,
    epochs: int = 4,
    minibatch_size: int = 1024,
    learning_rate: float = 2e-3,
    memory: int = 1,
    distance: Callable[[Distribution, Tensor], Tensor] = _improbability,
    agrees: Callable[[Tensor, Tensor], Tensor] = torch.eq,
) -> list[float]:
    """Train a policy to act as an expert would, and its critic on what it earns meanwhile.

    The policy itself acts, so that it learns what to do where its own mistakes lead: Ross, Gordon and Bagnell, "A
    reduction of imitation learning and structured prediction to no-regret online learning", AISTATS 2011 (DAgger).

    Parameters
    ----------
    learner : Learner
        Whose policy is trained in place; its own optimizer is not touched.
    collect : callable
        Returns experience of the policy.
    expert : callable
        What should have been done; below 0, or NaN, where it cannot be told, which is not learned from.
    rounds : int
        How often experience is collected and learned from.
    epochs : int
        How often each sample is used in a round.
    minibatch_size : int
        Samples a step.
    learning_rate : float
        Of Adam, at the beginning; it falls to a tenth of this.
    memory : int
        The experience of how many rounds, the last ones, is learned from.
    distance : callable
        Returns how far a batch of distributions is from a batch of actions, shape (B,); by default by probability.
    agrees : callable
        Tells of a batch of most likely actions and of the expert's which are the same, shape (B,).

    Returns
    -------
    list of float
        Share of the decisions of each round for which the expert's action was the policy's most likely one.

    Raises
    ------
    InvalidConfiguration
        If a round brings nothing to learn from.
    """
    student = _Student(learner, minibatch_size, learning_rate, distance, agrees)
    agreements, remembered = [], list[_Lesson]()
    for number in range(rounds):
        rate = between(learning_rate, 0.1 * learning_rate, number / rounds)
        remembered = [*remembered, _Lesson(learner, collect(), expert)][-memory:]
        agreements.append(_imitate_in(remembered, student, repeat(rate), epochs))
    return agreements


class _Lesson:
    """Samples of experience, and what the expert would have done."""

    def __init__(self, learner: Learner, experience: Experience, expert: Expert) -> None:
        shown = {name: experience.in_a_row(array) for name, array in experience.observations.items()}
        wanted = expert(shown)
        experience.observations.pop(EXPERT, None)  # nothing that the policy sees
        samples = learner.samples(experience)
        self.wanted = to_tensors({"actions": wanted}, samples.targets.device)["actions"]
        known = ~self.wanted.isnan().any(1) if self.wanted.dim() > 1 else self.wanted >= 0
        if not known.any():
            raise InvalidConfiguration("there is nothing to imitate: no action of the policy does as the expert does")
        if not known.all():
            samples, self.wanted = samples.part(known.nonzero()[:, 0]), self.wanted[known]
        self.samples = samples


def _joined(lessons: list[_Lesson]) -> tuple[Samples, Tensor]:
    """Return lessons as one."""
    if len(lessons) == 1:
        return lessons[0].samples, lessons[0].wanted
    parts = [lesson.samples for lesson in lessons]
    joined = Samples(
        {name: torch.cat([part.observations[name] for part in parts]) for name in parts[0].observations},
        torch.cat([part.actions for part in parts]),
        torch.cat([part.log_probs for part in parts]),
        torch.cat([part.advantages for part in parts]),
        torch.cat([part.targets for part in parts]),
    )
    return joined, torch.cat([lesson.wanted for lesson in lessons])


def _imitate_in(lessons: list[_Lesson], student: _Student, rates: Iterator[float], epochs: int) -> float:
    """Learn what the expert would have done; return the agreement in the last round's experience, before."""
    learner = student.learner
    agreed = _agreement(student, lessons[-1]) if len(lessons) > 1 else None
    samples, wanted = _joined(lessons)
    device = samples.targets.device

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of actor and critic, and where the actor agrees."""
        places = torch.from_numpy(rows).to(device)
        part = samples.part(places)
        distribution, values = learner.policy(part.observations)
        loss = student.distance(distribution, wanted[places]).mean() + 0.5 * (values - part.targets).square().mean()
        auxiliary = learner.policy.auxiliary_loss(part.observations)
        agreed = student.agrees(distribution.mode().detach(), wanted[places])
        return loss if auxiliary is None else loss + auxiliary, agreed

    shares = [student.learn(len(wanted), compare, rates) for _ in range(epochs)]
    learner.policy.observe(lessons[-1].samples.observations)
    return shares[0] if agreed is None else agreed


@torch.inference_mode()
def _agreement(student: _Student, lesson: _Lesson) -> float:
    """Return the share of a lesson in which the policy would do as the expert."""
    agreed, minibatch_size = 0, student.minibatch_size
    for begin in range(0, len(lesson.wanted), minibatch_size):
        places = torch.arange(begin, min(begin + minibatch_size, len(lesson.wanted)), device=lesson.wanted.device)
        distribution, _ = student.learner.policy(lesson.samples.part(places).observations)
        agreed += int(student.agrees(distribution.mode(), lesson.wanted[places]).sum())
    return agreed / len(lesson.wanted)


@one_thread()
def clone(
    learner: Learner,
    observations: Arrays,
    actions: NDArray[np.generic],
    distance: Callable[[Distribution, Tensor], Tensor],
    *,
    agrees: Callable[[Tensor, Tensor], Tensor] = torch.eq,
    epochs: int = 6,
    minibatch_size: int = 128,
    learning_rate: float = 1e-3,
) -> list[float]:
    """Train a policy on what an expert did, without acting itself.

    Parameters
    ----------
    learner : Learner
        Whose policy is trained in place; its own optimizer and its critic are not touched.
    observations : dict of str to array, shape (S, ...)
        What the expert saw.
    actions : array, shape (S, ...)
        What it did.
    distance : callable
        Returns how far a batch of distributions is from a batch of actions, shape (B,).
    agrees : callable
        Tells of a batch of most likely actions and of what the expert did which are the same, shape (B,).
    epochs : int
        How often each sample is used.
    minibatch_size : int
        Samples a step.
    learning_rate : float
        Of Adam, at the beginning; it falls to a twentieth of this.

    Returns
    -------
    list of float
        Share of the samples of each epoch for which the policy's most likely action was the expert's.

    Raises
    ------
    InvalidConfiguration
        If there are no samples.
    """
    if not len(actions):
        raise InvalidConfiguration("there is nothing to imitate: the expert never had a choice")
    policy = learner.policy
    device = next(policy.parameters()).device

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of the actor and of what it learns beside, and where the actor agrees."""
        shown = to_tensors({name: array[rows] for name, array in observations.items()}, device)
        wanted = to_tensors({"actions": actions[rows]}, device)["actions"]
        distribution, _ = policy(shown)
        agreed = agrees(distribution.mode().detach(), wanted)
        loss = distance(distribution, wanted).mean()
        auxiliary = policy.auxiliary_loss(shown)
        return loss if auxiliary is None else loss + auxiliary, agreed

    student = _Student(learner, minibatch_size, learning_rate, distance, agrees)
    total = epochs * -(-len(actions) // minibatch_size)
    rates = (between(learning_rate, 0.05 * learning_rate, step / total) for step in range(total))
    return [student.learn(len(actions), compare, rates) for _ in range(epochs)]


class _Student:
    """A policy with an optimizer of its own, so that the learner's is as it was when it goes on by itself."""

    def __init__(
        self,
        learner: Learner,
        minibatch_size: int,
        learning_rate: float,
        distance: Callable[[Distribution, Tensor], Tensor],
        agrees: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        self.learner = learner
        self.distance, self.agrees = distance, agrees
        self.minibatch_size = minibatch_size
        self.optimizer = torch.optim.Adam(learner.policy.parameters(), lr=learning_rate)

    def learn(self, size: int, compare: Compare, rates: Iterator[float]) -> float:
        """Use each sample once, in random order, a step at each rate; return the share of those that agreed."""
        order = self.learner.rng.permutation(size)
        agreed = 0
        parts = np.split(order, range(self.minibatch_size, size, self.minibatch_size))
        for rows, rate in zip(parts, rates, strict=False):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            loss, agrees = compare(rows)
            agreed += int(agrees.sum())
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return agreed / size
