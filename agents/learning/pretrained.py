"""Trained weights that come with this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration

__all__ = ["PRETRAINED", "pretrained_names", "pretrained_stem", "read_card", "weight_files"]

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Directory of the weights, NAME.safetensors, and their model cards, NAME.json."""


def pretrained_names(agent: str) -> list[str]:
    """Return the names of all pretrained weights for a kind of agent.

    Parameters
    ----------
    agent : str
        Kind of agent in the model cards, for example ``"split-window"``.

    Returns
    -------
    list of str
        Sorted names.
    """
    return sorted(path.stem for path in PRETRAINED.glob("*.json") if json.loads(path.read_text())["agent"] == agent)


def pretrained_stem(name: str, agent: str) -> Path:
    """Return the path of pretrained weights without ``.safetensors`` and ``.json``.

    Parameters
    ----------
    name : str
        Name of the weights, for example ``"desim-any"``.
    agent : str
        Kind of agent that the weights must be for, as in the model card.

    Returns
    -------
    Path
        Path for :func:`desim.agents.learning.checkpoint.load_weights`.

    Raises
    ------
    InvalidConfiguration
        If there are no weights of this name for such agents.
    """
    card = PRETRAINED / f"{name}.json"
    if "/" in name or not card.is_file() or json.loads(card.read_text())["agent"] != agent:
        names = pretrained_names(agent)
        near = did_you_mean(name, names)
        there = f"a path, or one of {', '.join(names)}" if names else "a path, because desim includes none"
        raise InvalidConfiguration(f"unknown pretrained {agent} agent {name!r}{near}; expected {there}")
    return PRETRAINED / name


def read_card(name: str, agent: str) -> dict[str, Any]:
    """Return the model card of trained weights; arguments and errors as for :func:`pretrained_stem`."""
    card: dict[str, Any] = json.loads(weight_files(pretrained_stem(name, agent))[1].read_text())
    return card


def weight_files(stem: Path) -> tuple[Path, Path]:
    """Return the two files of trained weights.

    Parameters
    ----------
    stem : Path
        Path with or without ``.safetensors`` or ``.json``; the name may contain dots.

    Returns
    -------
    tuple of Path and Path
        Tensor file and model card; they need not exist.
    """
    if stem.suffix in (".safetensors", ".json"):
        stem = stem.with_suffix("")
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")
