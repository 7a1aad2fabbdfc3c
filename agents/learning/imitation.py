"""Imitation learning: train a policy to act like an expert, as a warm start.

An expert is either a rule over the policy's own inputs or any agent of the problem, which sees the full observation.
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

from desim.agents.learning.experience import Experience
from desim.agents.learning.learner import Learner, Samples, between
from desim.agents.learning.policy import Distribution, one_thread, to_tensors
from desim.core import Agent, prepare_agent
from desim.envs.base import Arrays, InvertibleEncoder, SchedulingEnv
from desim.exceptions import InvalidConfiguration

__all__ = ["EXPERT", "Expert", "ExpertLabelledEnv", "advice", "clone", "imitate"]

EXPERT = "expert"
"""Name of the part of an observation that holds the expert's action."""

UNKNOWN = -1
"""Label where no action of the policy matches the expert's decision; NaN if an action is a vector."""

Expert = Callable[[Arrays], NDArray[Any]]
"""Function that returns the action for each of a batch of encoded observations."""


class ExpertLabelledEnv(gymnasium.Wrapper[Arrays, Any, Arrays, Any]):
    """Environment whose observations are labelled with an expert's action, under :data:`EXPERT`.

    The expert sees the full observation instead of the encoded one. It labels every decision, but its decisions are
    not carried out, so it must not rely on its earlier answers.

    Parameters
    ----------
    env : SchedulingEnv
        Environment to label. Its encoder must be a :class:`~desim.envs.base.InvertibleEncoder`.
    agent : Agent
        Expert.

    Raises
    ------
    InvalidConfiguration
        If the encoder cannot translate the expert's decisions into actions.
    """

    def __init__(self, env: SchedulingEnv, agent: Agent) -> None:
        super().__init__(env)
        name = getattr(agent, "name", type(agent).__name__)
        if not hasattr(env.encoder, "encode_action"):
            raise InvalidConfiguration(
                f"{type(env.encoder).__name__} has no encode_action, which {name} needs as an expert"
            )
        self._base, self._agent = env, agent
        env.forks = hasattr(agent, "attach")
        shape = env.action_space.shape or ()
        self._unknown = np.full(shape, np.nan, np.float32) if shape else np.array(UNKNOWN, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode; reset the environment and the expert."""
        encoded, info = self._base.reset(seed=seed, options=options)
        prepare_agent(self._agent, self._base.simulation)
        return self._with_advice(encoded), info

    def step(self, action: Any) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Take an action; the expert's action is only a label."""
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
    """Return the expert's actions of :class:`ExpertLabelledEnv` environments, as :func:`imitate` needs it."""
    return shown[EXPERT]


def _improbability(distribution: Distribution, wanted: Tensor) -> Tensor:
    """Return the negative log-probability of actions, shape (B,)."""
    return -distribution.log_prob(wanted)


Compare = Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]]
"""Function that returns, for samples given by position, the loss and whether policy and expert agree on each."""


@one_thread()  # sums of gradients over several threads are not reproducible
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
    """Train a policy to imitate an expert (DAgger), and its critic on the rewards earned meanwhile.

    The policy itself acts, so it also learns what to do in states that its own mistakes lead to. Source: Ross, Gordon
    and Bagnell, "A reduction of imitation learning and structured prediction to no-regret online learning", AISTATS
    2011.

    Parameters
    ----------
    learner : Learner
        Learner whose policy is trained in place; its own optimizer is not touched.
    collect : callable
        Function that returns new experience of the policy.
    expert : callable
        Function that returns the expert's actions. Samples labelled below 0 or NaN are skipped.
    rounds : int
        Number of rounds of collecting experience and learning.
    epochs : int
        Number of passes over the samples per round.
    minibatch_size : int
        Number of samples per optimizer step.
    learning_rate : float
        Initial learning rate of Adam; it falls to a tenth of this.
    memory : int
        Number of most recent rounds whose experience is learned from.
    distance : callable
        Loss between a batch of distributions and a batch of actions, shape (B,). Default: negative log-probability.
    agrees : callable
        Function that returns which of the policy's most likely actions equal the expert's, shape (B,).

    Returns
    -------
    list of float
        Share of the decisions of each round for which the expert's action was the policy's most likely one.

    Raises
    ------
    InvalidConfiguration
        If a round has no sample to learn from.
    """
    student = _Student(learner, minibatch_size, learning_rate, distance, agrees)
    agreements, remembered = [], list[_Lesson]()
    for number in range(rounds):
        rate = between(learning_rate, 0.1 * learning_rate, number / rounds)
        remembered = [*remembered, _Lesson(learner, collect(), expert)][-memory:]
        agreements.append(_imitate_in(remembered, student, repeat(rate), epochs))
    return agreements


class _Lesson:
    """Samples of one round, with the expert's actions."""

    def __init__(self, learner: Learner, experience: Experience, expert: Expert) -> None:
        shown = {name: experience.in_a_row(array) for name, array in experience.observations.items()}
        wanted = expert(shown)
        experience.observations.pop(EXPERT, None)  # the policy must not see the label
        samples = learner.samples(experience)
        self.wanted = to_tensors({"actions": wanted}, samples.targets.device)["actions"]
        known = ~self.wanted.isnan().any(1) if self.wanted.dim() > 1 else self.wanted >= 0
        if not known.any():
            raise InvalidConfiguration("nothing to imitate: no action of the policy matches any decision of the expert")
        if not known.all():
            samples, self.wanted = samples.part(known.nonzero()[:, 0]), self.wanted[known]
        self.samples = samples


def _joined(lessons: list[_Lesson]) -> tuple[Samples, Tensor]:
    """Return the samples and expert actions of all rounds together."""
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
    """Train on the expert's actions; return the agreement on the newest samples before training."""
    learner = student.learner
    agreed = _agreement(student, lessons[-1]) if len(lessons) > 1 else None
    samples, wanted = _joined(lessons)
    device = samples.targets.device

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of actor and critic, and whether the actor agrees."""
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
    """Return the share of samples on which policy and expert agree."""
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
    """Train a policy on recorded decisions of an expert (behavioural cloning).

    Parameters
    ----------
    learner : Learner
        Learner whose policy is trained in place; its own optimizer and its critic are not touched.
    observations : dict of str to array, shape (S, ...)
        Observations of the expert.
    actions : array, shape (S, ...)
        Actions of the expert.
    distance : callable
        Loss between a batch of distributions and a batch of actions, shape (B,).
    agrees : callable
        Function that returns which of the policy's most likely actions equal the expert's, shape (B,).
    epochs : int
        Number of passes over the samples.
    minibatch_size : int
        Number of samples per optimizer step.
    learning_rate : float
        Initial learning rate of Adam; it falls to a twentieth of this.

    Returns
    -------
    list of float
        Share of the samples of each epoch for which the policy's most likely action was the expert's.

    Raises
    ------
    InvalidConfiguration
        If ``actions`` is empty.
    """
    if not len(actions):
        raise InvalidConfiguration("nothing to imitate: the expert never had a choice")
    policy = learner.policy
    device = next(policy.parameters()).device

    def compare(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the loss of the actor and of its auxiliary task, and whether the actor agrees."""
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
    """A policy with a separate optimizer for imitation, so that the learner's optimizer keeps its state."""

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
        """Use each sample once in random order, with one rate per step; return the share that agreed."""
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
