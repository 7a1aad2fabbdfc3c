"""The trained weights that come with this package."""

from __future__ import annotations

import json
from pathlib import Path

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration

__all__ = ["PRETRAINED", "pretrained_names", "pretrained_stem"]

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Where they are: NAME.safetensors and NAME.json."""


def pretrained_names(agent: str) -> list[str]:
    """Return the names of all weights of a kind of agent.

    Parameters
    ----------
    agent : str
        As in their cards, for example ``"split-window"``.

    Returns
    -------
    list of str
        Sorted.
    """
    return sorted(path.stem for path in PRETRAINED.glob("*.json") if json.loads(path.read_text())["agent"] == agent)


def pretrained_stem(name: str, agent: str) -> Path:
    """Return the files of trained weights, without ``.safetensors`` and ``.json``.

    Parameters
    ----------
    name : str
        For example ``"lublin256-any"``.
    agent : str
        What kind of agent they must be for, as in their cards.

    Returns
    -------
    Path
        For :func:`desim.agents.learning.checkpoint.load_weights`.

    Raises
    ------
    InvalidConfiguration
        If there are none of this name for such agents.
    """
    names = pretrained_names(agent)
    if name not in names:
        near = did_you_mean(name, names)
        raise InvalidConfiguration(
            f"no pretrained {agent} agent {name!r}{near}; there are {', '.join(names) or 'none yet'}"
        )
    return PRETRAINED / name
