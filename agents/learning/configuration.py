"""What an agent is made of besides its weights: as a card keeps it, and read again with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from desim.agents.learning.checkpoint import load_into, load_weights
from desim.agents.learning.policy import Policy
from desim.exceptions import InvalidConfiguration

__all__ = ["AgentConfig"]

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


@dataclass(frozen=True)
class AgentConfig(Generic[AnyPolicy]):
    """Base class of the configurations of agents that learn: frozen dataclasses of plain values.

    A field whose default is a tuple is a list in a card, since JSON knows no tuples.

    Attributes
    ----------
    agent_kind : str
        What a card calls agents of this kind, for example ``"split-window"``.
    described : str
        What messages call one, with its article.
    """

    agent_kind: ClassVar[str]
    described: ClassVar[str]

    def policy(self, rng: np.random.Generator) -> AnyPolicy:
        """Return a new network.

        Parameters
        ----------
        rng : numpy.random.Generator
            For its weights.

        Returns
        -------
        Policy
            Actor and critic.
        """
        raise NotImplementedError

    def plain(self) -> dict[str, Any]:
        """Return plain values, for a card."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration that a card holds.

        Parameters
        ----------
        values : dict
            Of :meth:`plain`.

        Returns
        -------
        AgentConfig
            With defaults for what is missing.

        Raises
        ------
        InvalidConfiguration
            If they are none.
        """
        tuples = {field.name for field in fields(cls) if isinstance(field.default, tuple)}
        try:
            return cls(**{name: tuple(value) if name in tuples else value for name, value in values.items()})
        except TypeError as error:
            raise InvalidConfiguration(f"no configuration of {cls.described}: {error}") from error

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
        stem = Path(stem)
        tensors, card = load_weights(stem)
        if card.get("agent") != cls.agent_kind:
            _, _, wanted = cls.described.partition(" ")
            raise InvalidConfiguration(f"{stem} holds no {wanted} but {card.get('agent')!r}")
        values = card.get("config")
        if not isinstance(values, dict):
            raise InvalidConfiguration(f"{stem} holds no configuration of {cls.described} but {values!r}")
        config = cls.of({**values, **(changes or {})})
        policy = config.policy(np.random.default_rng(0))
        load_into(policy, tensors, str(stem))
        return config, policy
