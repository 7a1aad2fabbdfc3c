"""The agents that are compared, by their names in tables and figures: rules, trained weights, trainings of seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desim.agents.learning.pretrained import PRETRAINED
from desim.exceptions import RecordError
from desim.experiments.measured import Choice
from desim.sweep import Run

__all__ = [
    "BASELINES",
    "BOUND",
    "CONTROLS",
    "LEARNED",
    "PAPER_ROWS",
    "REFERENCE",
    "RULE_ROWS",
    "SEED",
    "SPLIT_WINDOW",
    "TrainingSetting",
    "Weights",
    "best_split",
    "control",
    "control_rows",
    "find_weights",
    "inspector_rows",
    "learned",
    "other_windows",
    "perform_training",
    "untrained",
    "window_rows",
]

SPLIT_WINDOW, INSPECTOR = "split-window", "inspector"
SEED = re.compile(r"-seed\d+$")

# -- rules ------------------------------------------------------------------------------------------

PAPER_ROWS: dict[str, Choice] = {
    "FCFS, back-filling": Choice("backfilling-fcfs"),
    "LCFS, back-filling": Choice("backfilling-lcfs"),
    "SJF by cores, back-filling": Choice("backfilling-sjf-cores"),
}
"""The paper's heuristics: its SJF starts the job with the fewest cores first."""

REFERENCE = "SJF, back-filling"
"""Shortest run time first: the strongest of the rules that see the whole queue."""
BOUND = "FCFS, EASY"
"""Whose longest waiting time nobody should exceed."""

RULE_ROWS: dict[str, Choice] = {
    REFERENCE: Choice("backfilling-sjf"),
    "F1, back-filling": Choice("backfilling-f1"),
    BOUND: Choice("easy-fcfs"),
    "SJF, EASY": Choice("easy-sjf"),
    "F1, EASY": Choice("easy-f1"),
    "WFP3, EASY": Choice("easy-wfp3"),
    "UNICEP, EASY": Choice("easy-unicep"),
    "FCFS, conservative": Choice("conservative-fcfs"),
}
"""More rules that see the whole queue. EASY does not differ for SJF by cores: if the first does not fit, none does."""

BASELINES = PAPER_ROWS | RULE_ROWS
"""All rules that see the whole queue."""

LEARNED = "learned"
"""The row of the learned agents where there is one for each window."""

CONTROLS = {
    "random in the window": "random",
    "shortest in the window": "shortest",
    "reserving in the window": "reserving",
}
"""Rules without learning that see no more than a window, see :mod:`desim.agents.batch.window_rules`."""


def control(rule: str, head: int, tail: int) -> Choice:
    """Return a rule in a window."""
    return Choice(f"window-{rule}-{head}-{tail}")


def control_rows(rules: tuple[str, ...], windows: tuple[tuple[int, int], ...]) -> dict[str, Choice]:
    """Return rules in some windows, by their names and those of the windows."""
    return {f"{rule}, {head}-{tail}": control(rule, head, tail) for rule in rules for head, tail in windows}


# -- trained weights --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Trained weights.

    Attributes
    ----------
    name : str
        Of their files.
    source : str
        The name, or the path if they do not come with the package.
    card : dict
        What is known of them.
    """

    name: str
    source: str
    card: Mapping[str, Any]

    @property
    def agent(self) -> str:
        """What kind of agent they are for."""
        return str(self.card.get("agent"))

    @property
    def window(self) -> tuple[int, int]:
        """Slots at the head and at the tail of the queue."""
        config = self.card["config"]
        return int(config["head"]), int(config["tail"])

    @property
    def validation(self) -> Mapping[str, float]:
        """Measures on the validation episodes."""
        found: Mapping[str, float] = self.card.get("validation") or {}
        return found

    def choice(self, window: tuple[int, int] | None = None) -> Choice:
        """Return the agent.

        Parameters
        ----------
        window : tuple of two ints, optional
            Another window than that of the training.

        Returns
        -------
        Choice
            It holds a digest of the weights: runs with others of the same name are other runs.
        """
        at = "" if window is None else f"@{window[0]}-{window[1]}"
        return Choice(f"{self.agent}:{self.source}{at}", (("sha256", str(self.card.get("sha256"))),))


def find_weights(directory: Path | None = None) -> dict[str, Weights]:
    """Return the weights in a directory.

    Parameters
    ----------
    directory : Path, optional
        Those that come with the package if left out.

    Returns
    -------
    dict of str to Weights
        By name, in order; only those of agents of the batch cluster.

    Raises
    ------
    RecordError
        If a card cannot be read.
    """
    found = {}
    for path in sorted((directory or PRETRAINED).glob("*.json"), key=lambda path: path.stem):
        try:
            card = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RecordError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
        if isinstance(card, dict) and card.get("agent") in (SPLIT_WINDOW, INSPECTOR):
            source = path.stem if directory is None else str(path.resolve().with_suffix(""))
            found[path.stem] = Weights(path.stem, source, card)
    return found


def learned(weights: Mapping[str, Weights], head: int, tail: int, family: str = "lublin256") -> Choice | None:
    """Return the learned agent of a window: the one trained for it, else the one for all windows.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    head, tail : int
        Slots at the head and at the tail of the queue.
    family : str
        What names begin with: the workload of the training.

    Returns
    -------
    Choice or None
        None if there is neither. The one for all windows has never seen a window without a slot at the tail, and
        does not stand in for those that have.
    """
    dedicated = weights.get(f"{family}-m{head + tail}-t{tail}")
    if dedicated is not None:
        return dedicated.choice()
    general = weights.get(f"{family}-any")
    return general.choice((head, tail)) if general is not None and tail else None


def best_split(weights: Mapping[str, Weights], size: int, family: str = "lublin256") -> tuple[int, int]:
    """Return how to split a window: as validation says where several splits were trained for, else into halves.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    size : int
        Slots of the window.
    family : str
        What names begin with.

    Returns
    -------
    tuple of two ints
        Slots at the head and at the tail.
    """
    pattern = re.compile(rf"{family}-m{size}-t[1-9]\d*$")
    measured = {
        one.window: one.validation["waiting_time_mean"]
        for name, one in weights.items()
        if pattern.match(name) and "waiting_time_mean" in one.validation
    }
    return min(measured, key=lambda window: measured[window], default=(size - size // 2, size // 2))


def window_rows(weights: Mapping[str, Weights], size: int, tails: tuple[int, ...]) -> dict[str, dict[str, Choice]]:
    """Return the learned agents and the controls of windows of one size.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    size : int
        Slots of the windows.
    tails : tuple of int
        Slots at the tail.

    Returns
    -------
    dict of str to dict of str to Choice
        By row, then by the number of slots at the tail, as text. Windows without trained weights are left out.
    """
    found = {tail: learned(weights, size - tail, tail) for tail in tails}
    rows = {LEARNED: {str(tail): choice for tail, choice in found.items() if choice is not None}}
    for row, rule in CONTROLS.items():
        rows[row] = {str(tail): control(rule, size - tail, tail) for tail in tails}
    return rows


def untrained(size: int, tails: Sequence[int], trained: Container[str]) -> list[str]:
    """Say for which tails of a size there is no learned agent, in a line at most."""
    missing = [str(tail) for tail in tails if str(tail) not in trained]
    if len(missing) == len(tails):
        return [f"M = {size}"]
    return [f"M = {size} with a tail of {', '.join(missing)}"] if missing else []


def inspector_rows(weights: Mapping[str, Weights]) -> dict[str, Choice]:
    """Return the inspectors that are trained, by the names of their base policies."""
    rows: dict[str, Choice] = {}
    for name, one in weights.items():
        if one.agent == INSPECTOR:
            config = one.card["config"]
            row = f"SchedInspector, {config['base'].upper().replace('-CORES', ' by cores')}"
            row += "" if config.get("keeps_accepted", True) else ", picks anew"
            rows[f"{row}, {name}" if row in rows else row] = one.choice()
    return rows


def other_windows(
    weights: Mapping[str, Weights], windows: tuple[tuple[int, int], ...], prefix: str
) -> dict[str, Choice]:
    """Return the split-window agents whose names begin with a prefix, those for all windows once for each window.

    Parameters
    ----------
    weights : mapping of str to Weights
        Of :func:`find_weights`.
    windows : tuple of pairs of ints
        For the agents for all windows.
    prefix : str
        What names begin with.

    Returns
    -------
    dict of str to Choice
        By name.
    """
    rows: dict[str, Choice] = {}
    for name, one in weights.items():
        if one.agent != SPLIT_WINDOW or not name.startswith(prefix):
            continue
        if name.endswith("-any"):
            rows |= {f"{name}@{head}-{tail}": one.choice((head, tail)) for head, tail in windows}
        else:
            rows[name] = one.choice()
    return rows


# -- trainings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingSetting:
    """A training of seconds, to try the experiment with.

    Attributes
    ----------
    head, tail : int
        Slots of the window.
    total_steps : int
        Decisions to learn from.
    """

    head: int
    tail: int
    total_steps: int


def perform_training(run: Run) -> dict[str, Any]:
    """Train.

    Parameters
    ----------
    run : Run
        Of a :class:`TrainingSetting` and a choice whose policy is a network, and whose parameters tell the reward.

    Returns
    -------
    dict
        The ``card`` of the weights, which are not kept, with their ``history``.
    """
    from desim.agents.batch.split_window import SplitWindowConfig
    from desim.agents.batch.training import EpisodeOptions, SplitWindowTraining
    from desim.agents.learning.learned import plain
    from desim.agents.learning.training import TrainingConfig

    choice: Choice = run.agent
    small: TrainingSetting = run.setting
    settings = SplitWindowTraining(
        agent=SplitWindowConfig(small.head, small.tail, choice.policy, hidden=(32,)),
        episodes=EpisodeOptions(num_traces=4, trace_jobs=600, num_jobs=100),
        reward=dict(choice.parameters)["reward"],
        training=TrainingConfig(
            total_steps=small.total_steps,
            seed=run.seed,
            num_envs=4,
            num_steps=128,
            validation_episodes=2,
            validate_every=3,
        ),
    )
    result = settings.train()
    card = {"config": plain(settings.agent), "training": {"reward": settings.reward}, "history": result.history}
    return {"card": card}
