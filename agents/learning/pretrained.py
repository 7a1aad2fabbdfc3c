"""Trained weights that come with this package."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from desim import user_code
from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration

__all__ = ["PRETRAINED", "made_of", "pretrained_names", "pretrained_stem", "read_card", "weight_files"]

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


def made_of(source: str, agent: str) -> tuple[Path, ...] | None:
    """Return the files that determine an agent with trained weights.

    Parameters
    ----------
    source : str
        Pretrained name, or a path, which contains a slash.
    agent : str
        Kind of agent, as in the model card.

    Returns
    -------
    tuple of Path or None
        Tensor file and model card; None if the card refers to custom code, such as a custom network.

    Raises
    ------
    InvalidConfiguration
        If there are no pretrained weights of this name for such agents.
    """
    files = weight_files(Path(source) if "/" in source else pretrained_stem(source, agent))
    try:
        content = files[1].read_bytes()
    except OSError:
        return files  # reading them later raises the proper error
    return None if _names_code(content) else files


@lru_cache(maxsize=64)
def _names_code(card: bytes) -> bool:
    """Return whether the configuration in a model card refers to custom code."""
    try:
        return _has_reference(json.loads(card)["config"])
    except (ValueError, KeyError, TypeError):
        return True


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_reference, value.values()))
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, str) and user_code.is_reference(value)
