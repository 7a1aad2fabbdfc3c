"""Base classes of agents with trained weights: their configuration, and how they are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from desim import user_code
from desim.agents.learning.checkpoint import load_into, load_weights
from desim.agents.learning.custom import warn_of_changes
from desim.agents.learning.policy import Policy
from desim.agents.learning.pretrained import pretrained_stem
from desim.checks import short_repr
from desim.exceptions import DesimError, InvalidConfiguration
from desim.reprs import NamedRepr

__all__ = ["AgentConfig", "LearnedAgent", "plain", "restored"]

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


def plain(value: Any) -> Any:
    """Return nested dataclasses as plain values for a model card; tuples become lists, as in JSON."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def restored(default: Any, values: Mapping[str, Any]) -> Any:
    """Return nested dataclasses from the plain values of a model card.

    Parameters
    ----------
    default : dataclass
        Instance that gives the type, and the values that are missing in the card.
    values : mapping
        Result of :func:`plain`.

    Returns
    -------
    dataclass
        Instance of the type of ``default``.

    Raises
    ------
    InvalidConfiguration
        If a name in ``values`` is unknown.
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
        raise InvalidConfiguration(f"{type(default).__name__} cannot be made from these values: {error}") from error


@dataclass(frozen=True)
class AgentConfig(Generic[AnyPolicy]):
    """Base class of agent configurations: frozen dataclasses of plain values that, with weights, define an agent.

    Attributes
    ----------
    agent_kind : str
        Kind of agent in model cards and prefix of agent names, for example ``"split-window"``.
    acts_with : str
        Prefix of the weights that are needed to act. If it is set, as for large networks, only these weights are
        stored, in half precision; further training starts from a checkpoint. Default: all weights are stored.
    """

    agent_kind: ClassVar[str]
    acts_with: ClassVar[str] = ""

    def policy(self, rng: np.random.Generator) -> AnyPolicy:
        """Return a new actor-critic network with random weights."""
        raise NotImplementedError

    @classmethod
    def load(cls, stem: str | Path, changes: Mapping[str, Any] | None = None) -> tuple[Self, AnyPolicy]:
        """Load a configuration and its network with trained weights.

        Parameters
        ----------
        stem : str or Path
            Path of the two files without ``.safetensors`` and ``.json``.
        changes : dict, optional
            Values that override those of the model card, by name.

        Returns
        -------
        tuple of AgentConfig and Policy
            Configuration and network.

        Raises
        ------
        RecordError
            If the files are missing or broken, or the weights do not fit.
        InvalidConfiguration
            If the files hold another kind of agent, or a value is unknown.
        """
        tensors, card = load_weights(Path(stem))
        values = card.get("config")
        if card.get("agent") != cls.agent_kind or not isinstance(values, dict):
            found = f"{short_repr(card.get('agent'))} with the configuration {short_repr(values)}"
            raise InvalidConfiguration(f"{stem}: got an agent {found}, expected {cls.agent_kind!r}")
        with _of_card(stem), user_code.named_by("its model card"):
            config: Self = restored(cls(), {**values, **(changes or {})})
            policy = config.policy(np.random.default_rng(0))
        warn_of_changes(str(stem), config, card.get("user_code", {}))
        idle = {name: t for name, t in policy.state_dict().items() if not name.startswith(cls.acts_with)}
        load_into(policy, idle | tensors, str(stem))
        return config, policy


@contextmanager
def _of_card(stem: str | Path) -> Iterator[None]:
    """Raise InvalidConfiguration with the path of a model card for what its values make impossible."""
    try:
        yield
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{stem}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, DesimError):
            raise
        told = f"{type(error).__name__}: {error}{user_code.place_of(error)}"
        raise InvalidConfiguration(f"{stem}: no agent has the configuration in its model card: {told}") from error


class LearnedAgent(NamedRepr):
    """Base class of agents with trained weights; an agent is named after its weights.

    Attributes
    ----------
    config_type : type
        Type of the configuration.
    """

    config_type: ClassVar[type[AgentConfig[Any]]]

    @classmethod
    def of(cls, config: Any, policy: Any, *, name: str) -> Self:
        """Return the agent of a configuration and a network; the name appears in records and tables."""
        return cls(policy, config, name=name)  # type: ignore[call-arg]  # as most agents are made

    @classmethod
    def load(cls, stem: str | Path, **changes: Any) -> Self:
        """Return an agent with trained weights.

        Parameters
        ----------
        stem : str or Path
            Path of the two files without ``.safetensors`` and ``.json``.
        **changes : object
            Values that override those of the model card, by name.

        Returns
        -------
        LearnedAgent
            Agent whose name is made of its kind and the path, such as ``"graph:./out/mine"``.

        Raises
        ------
        RecordError
            If the files are missing or broken.
        InvalidConfiguration
            If the files hold another kind of agent, or a value is unknown.
        """
        config, policy = cls.config_type.load(stem, changes)
        path = str(stem) if "/" in str(stem) else f"./{stem}"
        with _of_card(stem):
            return cls.of(config, policy, name=f"{cls.config_type.agent_kind}:{path}")

    @classmethod
    def pretrained(cls, name: str, **changes: Any) -> Self:
        """Return an agent with weights that come with this package.

        Parameters
        ----------
        name : str
            Name of the weights, for example ``"tpch-makespan"`` for the agent ``"graph:tpch-makespan"``.
        **changes : object
            Same as for :meth:`load`.

        Raises
        ------
        InvalidConfiguration
            If there are no weights of this name.
        """
        kind = cls.config_type.agent_kind
        config, policy = cls.config_type.load(pretrained_stem(name, kind), changes)
        return cls.of(config, policy, name=f"{kind}:{name}")

    @classmethod
    def named(cls, source: str, **changes: Any) -> Self:
        """Return the agent with weights given by a pretrained name or a path.

        Parameters
        ----------
        source : str
            Part of the agent's name after its kind. With a slash it is a path, otherwise a pretrained name.
        **changes : object
            Same as for :meth:`load`.
        """
        return cls.load(source, **changes) if "/" in source else cls.pretrained(source, **changes)
