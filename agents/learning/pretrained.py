"""Trained weights that come with this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from desim.checks import did_you_mean
from desim.exceptions import InvalidConfiguration
from desim.files import read_fields

__all__ = ["PRETRAINED", "ModelCard", "pretrained_names", "pretrained_stem", "read_card", "weight_files"]

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Directory of the weights, NAME.safetensors, and their model cards, NAME.json."""


class ModelCard(TypedDict):
    """Fields that loading a model card uses."""

    agent: NotRequired[str]
    sha256: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    training: NotRequired[dict[str, Any]]
    user_code: NotRequired[dict[str, Any]]
    status: NotRequired[str]
    validation: NotRequired[dict[str, float | None]]
    history: NotRequired[list[dict[str, Any]]]


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
    return sorted(path.stem for path in PRETRAINED.glob("*.json") if read_fields(path, ModelCard).get("agent") == agent)


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
    if "/" in name or not card.is_file() or read_fields(card, ModelCard).get("agent") != agent:
        names = pretrained_names(agent)
        near = did_you_mean(name, names)
        there = f"a path, or one of {', '.join(names)}" if names else "a path, because desim includes none"
        raise InvalidConfiguration(f"unknown pretrained {agent} agent {name!r}{near}; expected {there}")
    return PRETRAINED / name


def read_card(name: str, agent: str) -> dict[str, Any]:
    """Return the model card of trained weights; arguments and errors as for :func:`pretrained_stem`."""
    return dict(read_fields(weight_files(pretrained_stem(name, agent))[1], ModelCard))


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
