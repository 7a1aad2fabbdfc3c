"""Agents with trained weights: what they are made of besides these, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from desim.agents.learning.checkpoint import load_into, load_weights
from desim.agents.learning.custom import warn_of_changes
from desim.agents.learning.policy import Policy
from desim.agents.learning.pretrained import pretrained_stem
from desim.exceptions import InvalidConfiguration
from desim.reprs import NamedRepr

__all__ = ["AgentConfig", "LearnedAgent", "plain", "restored"]

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


def plain(value: Any) -> Any:
    """Return nested dataclasses as plain values, for a card: a tuple becomes a list, since JSON knows no tuples."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def restored(default: Any, values: Mapping[str, Any]) -> Any:
    """Return nested dataclasses of the plain values that a card holds, as by default where a value is missing.

    Parameters
    ----------
    default : dataclass
        Says what the values are to become.
    values : mapping
        Of :func:`plain`.

    Returns
    -------
    dataclass
        Of the same type.

    Raises
    ------
    InvalidConfiguration
        If there is a value of a name that is not known.
    """
    found = dict(values)
    for one in fields(default):
        usual = getattr(default, one.name)
        if one.name in found and is_dataclass(usual):
            found[one.name] = restored(usual, found[one.name])
        elif isinstance(usual, tuple) and isinstance(found.get(one.name), list):
            found[one.name] = tuple(found[one.name])
    try:
        return replace(default, **found)
    except TypeError as error:
        raise InvalidConfiguration(f"no {type(default).__name__}: {error}") from error


@dataclass(frozen=True)
class AgentConfig(Generic[AnyPolicy]):
    """Base class of what agents are made of besides their weights: frozen dataclasses of plain values.

    Attributes
    ----------
    agent_kind : str
        What a card calls agents of this kind, and what their names begin with, for example ``"split-window"``.
    acts_with : str
        What the names of the weights begin with that are needed to act. Of large networks these alone are stored, in
        half precision; the others are needed to learn on, for which there are checkpoints. By default, all are stored.
    """

    agent_kind: ClassVar[str]
    acts_with: ClassVar[str] = ""

    def policy(self, rng: np.random.Generator) -> AnyPolicy:
        """Return a new network, actor and critic, with weights from a generator."""
        raise NotImplementedError

    @classmethod
    def load(cls, stem: str | Path, changes: Mapping[str, Any] | None = None) -> tuple[Self, AnyPolicy]:
        """Return a configuration and its network, with trained weights.

        Parameters
        ----------
        stem : str or Path
            The files, without ``.safetensors`` and ``.json``.
        changes : dict, optional
            What is to be otherwise than in the card.

        Returns
        -------
        tuple of AgentConfig and Policy
            What the agent is made of.

        Raises
        ------
        RecordError
            If the files are missing or broken, or the weights do not fit.
        InvalidConfiguration
            If they hold something else.
        """
        tensors, card = load_weights(Path(stem))
        values = card.get("config")
        if card.get("agent") != cls.agent_kind or not isinstance(values, dict):
            found = f"{card.get('agent')!r} with the configuration {values!r}"
            raise InvalidConfiguration(f"{stem} holds no {cls.agent_kind} agent but {found}")
        try:
            config: Self = restored(cls(), {**values, **(changes or {})})
            policy = config.policy(np.random.default_rng(0))
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{stem}: {error}") from error
        warn_of_changes(str(stem), config, card.get("user_code", {}))
        idle = {name: t for name, t in policy.state_dict().items() if not name.startswith(cls.acts_with)}
        load_into(policy, idle | tensors, str(stem))
        return config, policy


class LearnedAgent(NamedRepr):
    """Base class of agents with trained weights, which are named after these.

    Attributes
    ----------
    config_type : type
        What they are made of besides their weights.
    """

    config_type: ClassVar[type[AgentConfig[Any]]]

    @classmethod
    def of(cls, config: Any, policy: Any, *, name: str) -> Self:
        """Return the agent of a configuration and a network; its name is for records and tables."""
        return cls(policy, config, name=name)  # type: ignore[call-arg]  # as most agents are made

    @classmethod
    def load(cls, stem: str | Path, **changes: Any) -> Self:
        """Return an agent with trained weights.

        Parameters
        ----------
        stem : str or Path
            The files, without ``.safetensors`` and ``.json``.
        **changes : object
            What is to be otherwise than in the card.

        Returns
        -------
        LearnedAgent
            Its name has the kind of agent and the path, such as ``"graph:./out/mine"``.

        Raises
        ------
        RecordError
            If the files are missing or broken.
        InvalidConfiguration
            If they hold something else.
        """
        config, policy = cls.config_type.load(stem, changes)
        path = str(stem) if "/" in str(stem) else f"./{stem}"
        return cls.of(config, policy, name=f"{cls.config_type.agent_kind}:{path}")

    @classmethod
    def pretrained(cls, name: str, **changes: Any) -> Self:
        """Return an agent with weights that come with this package.

        Parameters
        ----------
        name : str
            For example ``"tpch-makespan"``, which makes the agent ``"graph:tpch-makespan"``.
        **changes : object
            As for :meth:`load`.

        Raises
        ------
        InvalidConfiguration
            If there is none of this name.
        """
        kind = cls.config_type.agent_kind
        config, policy = cls.config_type.load(pretrained_stem(name, kind), changes)
        return cls.of(config, policy, name=f"{kind}:{name}")

    @classmethod
    def named(cls, source: str, **changes: Any) -> Self:
        """Return the agent of weights that are given by a pretrained name, or by a path, which has a slash in it.

        Parameters
        ----------
        source : str
            What stands behind the kind in the name of an agent.
        **changes : object
            As for :meth:`load`.
        """
        return cls.load(source, **changes) if "/" in source else cls.pretrained(source, **changes)
