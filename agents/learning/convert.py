"""Convert model cards written before the settings were nested dataclasses to the present format.

``python -m desim.agents.learning.convert DIRECTORY`` rewrites every old model card in a directory. Weights and
decisions stay the same. Settings that no longer exist are checked: their value must be the one that is now fixed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from desim import plugins
from desim.agents.learning.checkpoint import renamed_learning
from desim.agents.learning.learned import plain
from desim.agents.learning.settings import TrainingSettings
from desim.exceptions import InvalidConfiguration
from desim.files import read_json, write_atomically

__all__ = ["converted"]

FIXED = {
    "final_entropy": 0.0,
    "max_grad_norm": 0.5,
    "normalize_values": True,
    "normalize_advantages": True,
    "patience": None,
    "num_threads": 1,
    "floor": -1.0,
}
"""Values that are now fixed, by the name of the former setting."""

REAL_TIME = {(False,): "no", (True,): "yes", (False, True): "half"}


def converted(card: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a model card in the present format.

    Parameters
    ----------
    card : mapping
        Model card in the old format.
    name : str
        Base name of the weight files.

    Returns
    -------
    dict
        Model card of the same weights, with the same learning curve.

    Raises
    ------
    InvalidConfiguration
        If the old settings can no longer be expressed.
    """
    config, before = dict(card["config"]), dict(card["training"])
    old = before.pop("ppo", None) or before.pop("algorithm")
    learning = renamed_learning({**old, **old.get("discounting", {}), "algorithm": old.get("name", "ppo")})
    learning |= {key: learning[key] or 0.0 for key in ("time_unit", "target_kl") if key in learning}
    loop = dict(before["training"])
    for key, value in {**loop, **learning, **before}.items():
        if key in FIXED and value != FIXED[key]:
            raise InvalidConfiguration(f"{name}: got {key} {value!r}, expected {FIXED[key]!r}, which is now fixed")
    if learning["final_learning_rate"] != 0.1 * learning["learning_rate"] or learning.get("baseline") == "value":
        raise InvalidConfiguration(f"{name}: these settings of its training no longer exist: {old!r}")
    episodes = dict(before["episodes"])
    own = ("reward", "warm_start", "expert", "objective", "auxiliary_rate")
    further = {key: before[key] for key in own if key in before}
    if "windows" in before:
        further["any_window"] = bool(before["windows"])
    if card["agent"] == "inspector":
        further["num_cores"] = episodes["num_cores"]
    if "real_time" in episodes:
        episodes["real_time"] = REAL_TIME[tuple(episodes["real_time"])]
    training = {"learning": learning, "training": loop, "episodes": episodes, **further}
    kind = next(one for one in _kinds() if one().agent.agent_kind == card["agent"])
    settings = kind.of({"config": _known(config, kind().agent), "training": _known(training, kind())})
    values = settings.plain()
    kept = {key: card[key] for key in ("status", "validation", "history", "sha256")}
    return {
        "agent": card["agent"],
        "config": values.pop("agent"),
        "command": settings.command(name),
        "training": values,
        **kept,
    }


def _kinds() -> list[type[TrainingSettings[Any]]]:
    return [plugins.training_settings(name) for name in plugins.trainings()]


def _known(values: Mapping[str, Any], default: Any) -> dict[str, Any]:
    """Return the values whose names still exist."""
    names = plain(default)
    return {
        key: _known(value, getattr(default, key)) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if key in names
    }


def main() -> None:
    """Convert the directories named on the command line."""
    for directory in sys.argv[1:]:
        for path in sorted(Path(directory).glob("*.json")):
            card = read_json(path)
            if "seed" in card:  # only old cards have it at the top level
                text = json.dumps(converted(card, path.stem), indent=1) + "\n"
                write_atomically(path, partial(_write, text=text))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


if __name__ == "__main__":
    main()
