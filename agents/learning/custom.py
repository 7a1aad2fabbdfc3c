"""Networks, rewards and algorithms of one's own, by reference: ``module:Name``; and what cards keep of them.

A card keeps the reference and a digest of the file where it leads to, so that whoever loads weights is told where the
code is missing, or is not what it was.
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
"""Settings that may hold a reference."""


def check_known(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse what is neither a name that is known nor a reference that leads somewhere.

    Parameters
    ----------
    what : str
        What kind of part it is, for the message.
    given : str
        A name, or ``module:Name``.
    known : iterable of str
        The names.

    Raises
    ------
    InvalidConfiguration
        If there is no such thing; the message says what there is.
    """
    names = list(known)
    if given in names:
        return
    if not user_code.is_reference(given):
        there = ", ".join(map(repr, names))
        raise InvalidConfiguration(f"{what} is {given!r}, want one of {there}, or module:Name of your own")
    try:
        user_code.load(given)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{what} of your own: {error}") from error


def custom_network(reference: str, encoder: Any, rng: np.random.Generator) -> Policy:
    """Return a new network of one's own.

    Parameters
    ----------
    reference : str
        Of a subclass of :class:`~desim.agents.learning.policy.Policy`, or of a function that returns one. It is called
        with the spaces of observations and of actions, and with a generator for its weights.
    encoder : Encoder
        Has the spaces.
    rng : numpy.random.Generator
        For the weights.

    Returns
    -------
    Policy
        Actor and critic.

    Raises
    ------
    InvalidConfiguration
        If it leads to something else.
    """
    found = user_code.load(reference)
    spaces: tuple[gymnasium.Space[Any], ...] = (encoder.observation_space, encoder.action_space)
    made = user_code.load_problem_factory(reference, found, *spaces, rng)()
    if not isinstance(made, Policy):
        raise InvalidConfiguration(f"{reference}: {type(made).__name__} is no desim.agents.learning.policy.Policy")
    return made


class SoFar:
    """A reward from a function that tells what was earned since the episode began: each step earns the difference.

    Parameters
    ----------
    function : callable
        Called with the simulation, at each decision.
    """

    def __init__(self, function: Callable[[Simulation], float]) -> None:
        self.function = function

    def reset(self, simulation: Simulation) -> None:
        """Learn that an episode begins."""
        self._simulation = simulation
        self._before = float(self.function(simulation))

    def on_decision(self, answer: Any) -> None:
        """Do nothing: the function sees what came of it."""

    def pop_reward(self) -> float:
        """Return what was earned since the last call."""
        now = float(self.function(self._simulation))
        earned, self._before = now - self._before, now
        return earned


def custom_reward(given: str, known: Iterable[str]) -> str | Reward:
    """Return a reward of one's own; a name that is known is returned as it is.

    Parameters
    ----------
    given : str
        A name; or a reference to a function, see :class:`SoFar`, to a :class:`~desim.envs.Reward`, or to a class that
        makes one without arguments.
    known : iterable of str
        The names.

    Raises
    ------
    InvalidConfiguration
        If there is no such reward.
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
        raise InvalidConfiguration(f"{given}: {type(found).__name__} has no method {missing[0]}, as rewards have")
    reward: Reward = copy.deepcopy(found)  # what one episode leaves in it must not reach another environment
    return reward


def digests(settings: Any) -> dict[str, str]:
    """Return what code of one's own some settings refer to, each with a digest of the file where it stands.

    Parameters
    ----------
    settings : dataclass
        Of a training or an agent.

    Returns
    -------
    dict of str to str
        SHA-256 by reference.
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
    """Warn of code that is not what it was when weights were trained with it.

    Parameters
    ----------
    source : str
        Where the weights come from.
    settings : dataclass
        Of the agent.
    known : mapping of str to str
        The :func:`digests` of then.
    """
    for reference, found in digests(settings).items():
        if known.get(reference, found) != found:
            path = user_code.user_module(reference).__file__
            warnings.warn(f"{source} was trained with {reference}, whose file {path} has changed", stacklevel=3)
