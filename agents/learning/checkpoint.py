"""Checkpoints and trained weights: tensors in a safetensors file, everything else in a JSON file beside it.

A checkpoint is a directory. Its JSON file names the matching tensor file and is written last, so that a crash at any
moment leaves the previous checkpoint intact.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from desim.agents.learning.pretrained import ModelCard, weight_files
from desim.exceptions import RecordError
from desim.files import read_fields, read_plain, write_atomically
from desim.records import is_plain_name

__all__ = ["load_checkpoint", "load_into", "load_weights", "renamed_learning", "save_checkpoint", "save_weights"]

DOCUMENT = "checkpoint.json"
#: Largest size in bytes of a file of tensors.
MOST_TENSORS = 4 << 30

#: Settings of learning, and names of agents, as model cards from before the renames have them, and what they are now.
SETTINGS = {"decay": "gae_lambda", "entropy": "entropy_coef", "value_weight": "value_coef", "clip": "clip_range"}
AGENTS = (("sjf-cores", "smallest-first"), ("rank_up", "rank-up"), ("easy-molding", "easy-moldable"))


class _Checkpoint(TypedDict):
    """What every checkpoint has."""

    tensors: str


def save_checkpoint(directory: Path, tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
    """Write a checkpoint and replace the existing one, which is kept if writing fails.

    Parameters
    ----------
    directory : Path
        Directory of the checkpoint; created if it is missing.
    tensors : dict of str to Tensor
        Tensors by name.
    document : dict
        Plain values for the JSON file.

    Raises
    ------
    RecordError
        If the checkpoint cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        content = save(tensors)
        name = _name_of(content)
        write_atomically(directory / name, lambda path: path.write_bytes(content))
        text = json.dumps(document | {"tensors": name}) + "\n"
        write_atomically(directory / DOCUMENT, lambda path: path.write_text(text))
        for old in sorted(directory.glob("tensors-*.safetensors")):
            if old.name != name:
                old.unlink(missing_ok=True)
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"cannot write a checkpoint to {directory}: {error.strerror or error}") from error


def load_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the tensors and plain values of a checkpoint, or None if there is none; raise RecordError if broken."""
    path = directory / DOCUMENT
    if not path.exists():
        return None
    document = read_fields(path, _Checkpoint)
    name = document["tensors"]
    if not is_plain_name(name):
        raise RecordError(f"{path}: tensors: got {name!r}, expected the name of a file beside it")
    tensors, content = _tensors(directory / name)
    if name != _name_of(content):
        raise RecordError(f"{directory / name} is not the file that {path} was written with")
    return tensors, dict(document)


def _tensors(path: Path) -> tuple[dict[str, Tensor], bytes]:
    """Return the tensors in a file, and its content."""
    try:
        content = read_plain(path, MOST_TENSORS)
        return load(content), content
    except (OSError, ValueError, SafetensorError) as error:
        raise RecordError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _name_of(content: bytes) -> str:
    """Return the name of a tensor file, which holds a digest of its content."""
    return f"tensors-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"


def save_weights(stem: Path, tensors: dict[str, Tensor], card: dict[str, Any], *, half: bool = False) -> None:
    """Write trained weights and their model card.

    Parameters
    ----------
    stem : Path
        Path of the two files without ``.safetensors`` and ``.json``.
    tensors : dict of str to Tensor
        Weights by name; stored in single precision.
    card : dict
        Model card: configuration, training settings, learning curve, evaluation.
    half : bool
        Whether to store the weights in half precision instead.

    Raises
    ------
    RecordError
        If the files cannot be written.
    """
    kind = torch.float16 if half else torch.float32
    stored = {name: (t.to(kind) if t.is_floating_point() else t).contiguous() for name, t in tensors.items()}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        content = save(stored)
        write_atomically(_path(stem, ".safetensors"), lambda path: path.write_bytes(content))
        text = json.dumps(_finite(card | {"sha256": hashlib.sha256(content).hexdigest()}), indent=1) + "\n"
        write_atomically(_path(stem, ".json"), lambda path: path.write_text(text))
    except RecordError:
        raise
    except OSError as error:
        raise RecordError(f"cannot write {stem}: {error.strerror or error}") from error


def load_weights(stem: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read trained weights and their model card.

    Parameters
    ----------
    stem : Path
        Path of the two files, with or without ``.safetensors`` or ``.json``.

    Returns
    -------
    tuple of dict and dict
        Weights by name, and the model card.

    Raises
    ------
    RecordError
        If a file is missing or broken, or the two do not belong together.
    """
    tensor_file, card_file = weight_files(stem)
    stem = card_file.with_suffix("")
    for file in (card_file, tensor_file):
        if not file.exists():
            raise RecordError(f"no weights at {stem}: {file.name} is missing")
    card = read_fields(card_file, ModelCard)
    tensors, content = _tensors(tensor_file)
    if card.get("sha256") != hashlib.sha256(content).hexdigest():
        raise RecordError(f"{stem}.safetensors is not the file that {stem.name}.json describes")
    return tensors, _renamed(dict(card))


def renamed_learning(learning: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a learning algorithm under the names of today.

    Parameters
    ----------
    learning : mapping
        From a model card, which may be an old one.

    Returns
    -------
    dict
        The same values.
    """
    values = {SETTINGS.get(name, name): value for name, value in learning.items()}
    return values | ({"algorithm": "a2c"} if values.get("algorithm") == "actor_critic" else {})


def _renamed(card: dict[str, Any]) -> dict[str, Any]:
    """Return a model card under the names of today, whenever it was written."""
    found = {"user_code" if name == "own_code" else name: value for name, value in card.items()}
    for part in ("config", "training"):
        if isinstance(found.get(part), dict):
            found[part] = _with_agents(found[part])
    training = found.get("training")
    if isinstance(training, dict) and isinstance(training.get("learning"), dict):
        training["learning"] = renamed_learning(training["learning"])
    return found


def _with_agents(value: Any) -> Any:
    """Return plain values in which agents have the names of today."""
    if isinstance(value, dict):
        return {key: _with_agents(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_agents(part) for part in value]
    if isinstance(value, str):
        for old, new in AGENTS:
            value = re.sub(rf"(?<!\w){old}(?!\w)", new, value)
    return value


def load_into(module: torch.nn.Module, tensors: dict[str, Tensor], source: str) -> None:
    """Load weights into a module; raise RecordError, which names their source, if names or shapes differ."""
    wanted = module.state_dict()
    common = [name for name in wanted if name in tensors]
    for what, names in (
        ("the network has no", [name for name in tensors if name not in wanted]),
        ("the file lacks", [name for name in wanted if name not in tensors]),
        ("sizes differ for", [name for name in common if wanted[name].shape != tensors[name].shape]),
    ):
        if names:
            more = f", and {len(names) - 1} more" if names[1:] else ""
            raise RecordError(
                f"the weights of {source} do not fit {type(module).__name__}, the network that their model card "
                f"describes: {what} {names[0]}{more}. The card must name a custom network as module:Name"
            )
    module.load_state_dict(tensors)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not support, by null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _path(stem: Path, suffix: str) -> Path:
    """Return the path with a suffix appended; a stem may contain dots, which ``with_suffix`` would cut."""
    return stem.with_name(stem.name + suffix)
