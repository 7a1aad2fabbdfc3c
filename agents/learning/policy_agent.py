"""Policies of other libraries as agents: models of Stable-Baselines3, torch modules, plain functions.

Such a policy has learned from what an encoder shows of a decision. The agent shows it the same again, in
:func:`desim.simulate`, comparisons, searches and forks, and translates what it answers, as the environment does.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from desim.checks import short_repr
from desim.envs.base import ACTION_MASK, Arrays, Encoder
from desim.exceptions import InfeasibleAction, InvalidConfiguration
from desim.reprs import NamedRepr

__all__ = ["PolicyAgent"]


class PolicyAgent(NamedRepr):
    """An agent that does what a policy says about encoded observations.

    Where actions are numbered, impossible ones have no chance wherever the policy tells scores, or takes masks. If it
    names an action that is not possible, that means waiting, as in the environment.

    Parameters
    ----------
    encoder : Encoder
        What the policy has seen in its training: the ``encoder`` of the environment.
    policy : object
        * a model or policy of Stable-Baselines3 or sb3-contrib, or anything that has their ``predict``; masks are given
          to those that take ``action_masks``. A model that was trained behind :class:`~desim.envs.FlattenArrays` or
          Gymnasium's ``FlattenObservation`` is shown vectors. Other wrappers are not known here.
        * a ``torch.nn.Module``, called with a batch of one observation, a dict of tensors by name: it returns a score
          of each action, unnormalized logarithms of probabilities, or, where actions are a Box, the action; of a
          tuple the first part counts. A :class:`desim.agents.learning.policy.Policy` returns its distribution.
        * any other callable, called with the dict of arrays: it returns the number of an action, a score of each, or
          the action of a Box.
    deterministic : bool
        Whether the most likely action is taken, of equal ones the first; else one is drawn, from the agent's stream of
        random numbers; a DQN has no chances to draw by and always takes the best.
    skip_forced : bool
        Do not ask where there is no choice but to wait; as in the environment that it was trained in.
    name : str
        For records and tables.

    Raises
    ------
    InvalidConfiguration
        If the policy is of an unknown kind or was trained on other observations or actions, or nothing can be drawn.

    Examples
    --------
    >>> from desim import simulate
    >>> from desim.problems.batch import BatchCluster, Job
    >>> from desim.problems.batch.encoders import FeatureEncoder, JOB_FEATURES, SplitWindow
    >>> requested_time = JOB_FEATURES.index("requested_time")
    >>> def shortest(seen):
    ...     return [*-seen["jobs"][:, requested_time], -100.0]  # to wait comes last
    >>> agent = PolicyAgent(FeatureEncoder(SplitWindow(8)), shortest, name="shortest")
    >>> jobs = [Job(1, 0.0, 2, 10.0, 10.0), Job(2, 1.0, 2, 9.0, 9.0), Job(3, 2.0, 2, 5.0, 5.0)]
    >>> simulate(BatchCluster(jobs, num_cores=2), agent).jobs["starting_time"].to_list()
    [0.0, 15.0, 10.0]
    """

    def __init__(
        self,
        encoder: Encoder,
        policy: Any,
        *,
        deterministic: bool = True,
        skip_forced: bool = False,
        name: str = "policy",
    ) -> None:
        given: Any = encoder
        if isinstance(given, type) or not all(hasattr(given, part) for part in ("encode", "decode", "action_space")):
            hint = ", such as gym_env.unwrapped.encoder" if isinstance(given, gymnasium.Env) else ""
            raise InvalidConfiguration(f"encoder is {short_repr(given)}, want the encoder of an environment{hint}")
        self.encoder = encoder
        self.deterministic = deterministic
        self.skip_forced = skip_forced
        self.name = name
        self._rng: np.random.Generator | None = None
        self._ask = _asked(policy, encoder)
        if not deterministic and not self._ask.can_draw:
            raise InvalidConfiguration(
                "deterministic is False, but a policy that returns actions of a Box draws nothing"
            )

    @property
    def policy(self) -> Any:
        """What is asked; of a model of Stable-Baselines3, its policy."""
        return self._ask.policy

    def reset(self, simulation_info: dict[str, Any], rng: np.random.Generator) -> None:
        """Forget the last run.

        Parameters
        ----------
        simulation_info : dict
            The problem's ``describe()``; not used.
        rng : numpy.random.Generator
            What actions are drawn from.
        """
        self._rng = None if self.deterministic else rng
        self._ask.reset()

    def __getstate__(self) -> dict[str, Any]:
        """Return what it is made of, without what is left of the last run."""
        return vars(self) | {"_rng": None}

    def act(self, observation: Any) -> Any:
        """Return the answer to a decision.

        Parameters
        ----------
        observation : object
            Of the encoder's problem.

        Raises
        ------
        InfeasibleAction
            If the policy's answer holds what is no number, or has the wrong shape.
        """
        if self._rng is None and not self.deterministic:
            raise InvalidConfiguration(f"{self.name} draws actions: call reset(info, rng) before it acts")
        if self.skip_forced and self.encoder.is_forced(observation):
            return None
        action = self._ask(self.encoder.encode(observation), self._rng)
        return self.encoder.decode(observation, action)[0]


class _Asked:
    """A policy, how it is asked, and what its answer means."""

    def __init__(self, policy: Any, encoder: Encoder) -> None:
        self.policy = policy
        self.space = encoder.action_space
        self.is_discrete = isinstance(self.space, gymnasium.spaces.Discrete)

    @property
    def can_draw(self) -> bool:
        """Whether it can draw actions, instead of taking the most likely one."""
        return self.is_discrete

    def reset(self) -> None:
        """Forget the last run."""

    def __call__(self, seen: Arrays, rng: np.random.Generator | None) -> Any:
        """Return an action, drawn from a generator if there is one."""
        return self._action(self.policy(seen), seen[ACTION_MASK], rng)

    def _action(self, answer: Any, mask: NDArray[Any], rng: np.random.Generator | None = None) -> Any:
        """Return the action that an answer names, or the best or a drawn one of those that it gives scores."""
        if hasattr(answer, "detach"):
            answer = answer.detach().cpu()
        try:
            values = np.asarray(answer, np.float64)
        except (TypeError, ValueError):
            raise InfeasibleAction(f"the policy answers {short_repr(answer)}, want {self._wanted()}") from None
        if not self.is_discrete:
            if values.size != np.prod(self.space.shape or ()):
                raise InfeasibleAction(f"the policy answers an array of shape {values.shape}, want {self._wanted()}")
            return values.reshape(self.space.shape or ())
        possible = mask.ravel() > 0
        if values.size == len(possible) and values.ndim:
            return _best_of(values.ravel(), possible.nonzero()[0], rng)
        if values.size == 1 and float(values.item()).is_integer():
            return int(values.item())
        answered = short_repr(answer) if values.size == 1 else f"an array of shape {values.shape}"
        raise InfeasibleAction(f"the policy answers {answered}, want {self._wanted()}")

    def _wanted(self) -> str:
        if isinstance(self.space, gymnasium.spaces.Discrete):
            return f"one of the {self.space.n} actions, or a score of each"
        return f"an action of shape {self.space.shape}"


def _best_of(scores: NDArray[np.float64], possible: NDArray[np.int64], rng: np.random.Generator | None) -> int:
    """Return the possible action with the best score; or one that is drawn by them, by the Gumbel-max method."""
    if not len(possible):
        return 0  # which is not possible either, and so means waiting
    of_possible = scores[possible]
    if np.isnan(of_possible).any():
        raise InfeasibleAction(f"the policy's score of action {possible[np.isnan(of_possible)][0]} is not a number")
    if rng is not None:
        of_possible = of_possible + rng.gumbel(size=len(possible))
    return int(possible[of_possible.argmax()])


class _Module(_Asked):
    """A torch module."""

    def __init__(self, policy: Any, encoder: Encoder) -> None:
        super().__init__(policy, encoder)
        known = sys.modules.get("desim.agents.learning.policy")  # not imported: the policy could not be one of these
        self._is_ours = known is not None and isinstance(policy, known.Policy)

    @property
    def can_draw(self) -> bool:
        return self.is_discrete or self._is_ours

    def __call__(self, seen: Arrays, rng: np.random.Generator | None) -> Any:
        import torch

        from desim.agents.learning.policy import one_thread, to_tensors

        was_training = self.policy.training
        if was_training:
            self.policy.eval()
        place = next(self.policy.parameters(), torch.empty(0)).device
        with torch.inference_mode(), one_thread():
            answer = self.policy(to_tensors({name: array[None] for name, array in seen.items()}, place))
            if isinstance(answer, tuple):
                answer = answer[0]
            if self._is_ours:
                answer = answer.mode() if rng is None else answer.sample(rng)
        if was_training:
            self.policy.train()
        return self._action(answer, seen[ACTION_MASK], rng)


class _Saved(NamedTuple):
    """A policy of Stable-Baselines3 as it saves itself."""

    kind: Any
    device: str
    content: bytes


class _Predicting(_Asked):
    """What has the method ``predict`` of Stable-Baselines3, and perhaps a memory of the run."""

    can_draw = True

    def __init__(self, policy: Any, encoder: Encoder) -> None:
        inner = getattr(policy, "policy", None)  # a model asks its policy, and drags its environment along
        super().__init__(inner if hasattr(inner, "predict") else policy, encoder)
        parameters = inspect.signature(self.policy.predict).parameters
        self._takes_masks = "action_masks" in parameters
        self._takes_state = {"state", "episode_start"} <= set(parameters)
        self._takes_determinism = "deterministic" in parameters
        self._show = _shower(getattr(self.policy, "observation_space", None), encoder.observation_space)
        space = getattr(self.policy, "action_space", None)
        if space is not None and space != self.space:
            raise InvalidConfiguration(f"the policy was trained for actions {space}, the encoder has {self.space}")
        self.reset()

    def reset(self) -> None:
        self._state: Any = None
        self._is_first = True

    def __deepcopy__(self, memo: dict[int, Any]) -> _Predicting:
        """Return what asks the same policy, which is not changed by that, with a memory of its own."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.reset()
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return weights and settings of a policy of Stable-Baselines3, without what it was asked last."""
        state = vars(self) | {"_state": None, "_is_first": True}
        library = sys.modules.get("stable_baselines3.common.policies")
        if library is not None and isinstance(self.policy, library.BaseModel):
            file = io.BytesIO()
            self.policy.save(file)
            state["policy"] = _Saved(type(self.policy), str(self.policy.device), file.getvalue())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if isinstance(self.policy, _Saved):
            saved = self.policy
            self.policy = saved.kind.load(io.BytesIO(saved.content), saved.device)

    def __call__(self, seen: Arrays, rng: np.random.Generator | None) -> Any:
        more: dict[str, Any] = {"deterministic": rng is None} if self._takes_determinism else {}
        mask = seen[ACTION_MASK]
        if self._takes_masks:
            more["action_masks"] = mask.ravel() > 0
        if self._takes_state:
            more |= {"state": self._state, "episode_start": np.array([self._is_first])}
        with ExitStack() as stack:
            if rng is not None and "torch" in sys.modules:  # it draws from torch's own stream
                import torch

                stack.enter_context(torch.random.fork_rng(devices=[]))
                torch.manual_seed(int(rng.integers(2**63)))
            answer = self.policy.predict(self._show(seen), **more)
        if isinstance(answer, tuple):
            answer, self._state = answer[0], answer[1]
        self._is_first = False
        return self._action(answer, mask)


def _asked(policy: Any, encoder: Encoder) -> _Asked:
    """Return how a policy is asked."""
    if not isinstance(policy, type):
        if callable(getattr(policy, "predict", None)):
            return _Predicting(policy, encoder)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(policy, torch.nn.Module):
            return _Module(policy, encoder)
        if callable(policy):
            return _Asked(policy, encoder)
    raise InvalidConfiguration(
        f"policy is {short_repr(policy)}, want a model of Stable-Baselines3, a torch module, or a callable that takes "
        "an observation"
    )


def _shower(wanted: Any, space: gymnasium.spaces.Dict) -> Callable[[Arrays], Any]:
    """Return what turns what an encoder shows into what a policy was trained on."""
    if wanted is None or wanted == space:
        return _as_it_is
    if isinstance(wanted, gymnasium.spaces.Box) and wanted.shape == (gymnasium.spaces.flatdim(space),):
        return partial(gymnasium.spaces.flatten, space)
    parts: Mapping[str, Any] = wanted.spaces if isinstance(wanted, gymnasium.spaces.Dict) else {}
    sizes = {name: np.prod(box.shape or ()) for name, box in space.spaces.items()}
    if not parts or any(sizes.get(name) != np.prod(box.shape or ()) for name, box in parts.items()):
        raise InvalidConfiguration(
            f"the policy was trained on observations {_shapes(wanted)}, the encoder shows {_shapes(space)}"
        )
    return partial(_reshaped, {name: box.shape for name, box in parts.items()})


def _as_it_is(seen: Arrays) -> Arrays:
    return seen


def _reshaped(shapes: Mapping[str, tuple[int, ...]], seen: Arrays) -> Arrays:
    return {name: seen[name].reshape(shape) for name, shape in shapes.items()}


def _shapes(space: Any) -> str:
    """Return what a space of observations holds, in short."""
    if not isinstance(space, gymnasium.spaces.Dict):
        return f"of shape {space.shape}"
    return ", ".join(f"{name} {part.shape}" for name, part in space.spaces.items())
