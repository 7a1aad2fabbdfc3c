"""The trained weights that come with this package."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from desim import user_code
from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration

__all__ = ["PRETRAINED", "made_of", "pretrained_names", "pretrained_stem", "weight_files"]

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
        For example ``"desim-any"``.
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
    card = PRETRAINED / f"{name}.json"
    if "/" in name or not card.is_file() or json.loads(card.read_text())["agent"] != agent:
        names = pretrained_names(agent)
        near = did_you_mean(name, names)
        raise InvalidConfiguration(
            f"no pretrained {agent} agent {name!r}{near}; there are {', '.join(names) or 'none yet'}"
        )
    return PRETRAINED / name


def weight_files(stem: Path) -> tuple[Path, Path]:
    """Return the two files of weights.

    Parameters
    ----------
    stem : Path
        With or without ``.safetensors`` or ``.json``; the name may hold points.

    Returns
    -------
    tuple of Path and Path
        The tensors and the card; they need not exist.
    """
    if stem.suffix in (".safetensors", ".json"):
        stem = stem.with_suffix("")
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")


def made_of(source: str, agent: str) -> tuple[Path, ...] | None:
    """Return the files that an agent with trained weights is made of.

    Parameters
    ----------
    source : str
        A pretrained name, or a path, which has a slash in it.
    agent : str
        What kind of agent it is, as in the card.

    Returns
    -------
    tuple of Path or None
        Tensors and card; None if the card names code of a user, such as a network of one's own.

    Raises
    ------
    InvalidConfiguration
        If there are no pretrained weights of this name for such agents.
    """
    files = weight_files(Path(source) if "/" in source else pretrained_stem(source, agent))
    try:
        content = files[1].read_bytes()
    except OSError:
        return files  # whoever reads them tells
    return None if _names_code(content) else files


@lru_cache(maxsize=64)
def _names_code(card: bytes) -> bool:
    """Return whether the configuration of an agent has a reference to code of a user."""
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
