"""Custom networks, rewards and algorithms, given by reference as ``module:Name``.

A model card stores the reference and a digest of the file it points to. Loading the weights then reports code that is
missing or has changed.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from desim import user_code
from desim.agents.learning.policy import Policy
from desim.core import Simulation
from desim.envs.base import Reward
from desim.exceptions import InvalidConfiguration

__all__ = ["SoFar", "check_known", "custom_network", "custom_reward", "digests", "warn_of_changes"]

FIELDS = ("network", "reward", "algorithm")
"""Names of the settings that may hold a reference."""


def check_known(what: str, given: str, known: Iterable[str]) -> None:
    """Raise InvalidConfiguration unless a value is a known name or a valid reference.

    Parameters
    ----------
    what : str
        Name of the setting, for the message.
    given : str
        Known name, or ``module:Name``.
    known : iterable of str
        Known names.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown or the reference cannot be loaded; the message lists the known names.
    """
    names = list(known)
    if given in names:
        return
    if not user_code.is_reference(given):
        there = ", ".join(map(repr, names))
        raise InvalidConfiguration(f"{what}: got {given!r}, expected one of {there}, or module:Name of custom code")
    try:
        user_code.load(given)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"custom {what}: {error}") from error


def custom_network(reference: str, encoder: Any, rng: np.random.Generator) -> Policy:
    """Return a new custom network.

    Parameters
    ----------
    reference : str
        Reference to a subclass of :class:`~desim.agents.learning.policy.Policy`, or to a function that returns one.
        It is called with the observation space, the action space, and a generator for its weights.
    encoder : Encoder
        Encoder that has the spaces.
    rng : numpy.random.Generator
        Generator for the weights.

    Returns
    -------
    Policy
        Actor-critic network.

    Raises
    ------
    InvalidConfiguration
        If the call does not return a policy.
    """
    found = user_code.load(reference)
    spaces: tuple[gymnasium.Space[Any], ...] = (encoder.observation_space, encoder.action_space)
    made = user_code.load_problem_factory(reference, found, *spaces, rng)()
    if not isinstance(made, Policy):
        raise InvalidConfiguration(
            f"{reference}: got {type(made).__name__}, expected desim.agents.learning.policy.Policy"
        )
    return made


class SoFar:
    """Reward from a function of the cumulative return so far: each step earns the difference.

    Parameters
    ----------
    function : callable
        Function that returns the cumulative return since the episode began. It is called with the simulation at each
        decision.
    """

    def __init__(self, function: Callable[[Simulation], float]) -> None:
        self.function = function

    def reset(self, simulation: Simulation) -> None:
        """Begin an episode."""
        self._simulation = simulation
        self._before = float(self.function(simulation))

    def on_decision(self, answer: Any) -> None:
        """Do nothing: the function reads the effects from the simulation."""

    def pop_reward(self) -> float:
        """Return the reward since the last call."""
        now = float(self.function(self._simulation))
        earned, self._before = now - self._before, now
        return earned


def custom_reward(given: str, known: Iterable[str]) -> str | Reward:
    """Return a custom reward; a known name is returned unchanged.

    Parameters
    ----------
    given : str
        Known name, or a reference. The reference points to a function (see :class:`SoFar`), to a
        :class:`~desim.envs.Reward`, or to a class that makes one without arguments.
    known : iterable of str
        Known names.

    Raises
    ------
    InvalidConfiguration
        If the reference cannot be loaded or is no reward.
    """
    if given in known:
        return given
    found = user_code.load(given)
    if isinstance(found, type):
        found = user_code.load_problem_factory(given, found)()
    elif inspect.isroutine(found):
        user_code.load_problem_factory(given, found, None)  # takes one argument, the simulation
        return SoFar(found)
    missing = [name for name in ("reset", "on_decision", "pop_reward") if not callable(getattr(found, name, None))]
    if missing:
        raise InvalidConfiguration(f"{given}: {type(found).__name__} is no reward: it has no method {missing[0]}")
    reward: Reward = copy.deepcopy(found)  # environments must not share the reward's state
    return reward


def digests(settings: Any) -> dict[str, str]:
    """Return the references to custom code in some settings, each with a digest of its file.

    Parameters
    ----------
    settings : dataclass
        Settings of a training or an agent.

    Returns
    -------
    dict of str to str
        SHA-256 digests by reference.
    """
    return {reference: _digest(reference) for reference in sorted(set(_references(settings)))}


def _references(settings: Any) -> Iterator[str]:
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from _references(value)
        elif one.name in FIELDS and user_code.is_reference(value):
            yield value


def _digest(reference: str) -> str:
    path = getattr(user_code.user_module(reference), "__file__", None)
    return hashlib.sha256(Path(path).read_bytes() if path else b"").hexdigest()


def warn_of_changes(source: str, settings: Any, known: Mapping[str, str]) -> None:
    """Warn if custom code has changed since the weights were trained.

    Parameters
    ----------
    source : str
        Path or name of the weights.
    settings : dataclass
        Settings of the agent.
    known : mapping of str to str
        Result of :func:`digests` at the time of training.
    """
    for reference, found in digests(settings).items():
        if known.get(reference, found) != found:
            path = user_code.user_module(reference).__file__
            warnings.warn(f"{source} was trained with {reference}, but its file {path} has changed since", stacklevel=3)
