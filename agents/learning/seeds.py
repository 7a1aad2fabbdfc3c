"""Repeat a training with several seeds: learning curves, their band, and a confidence interval of the final measure.

A single training says little, because results vary strongly between seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim import user_code
from desim.agents.learning.checkpoint import load_weights
from desim.agents.learning.training import TrainingResult
from desim.checks import check_int
from desim.exceptions import InvalidConfiguration, RecordError
from desim.files import write_atomically
from desim.statistics import Estimate, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from desim.agents.learning.settings import TrainingSettings

__all__ = ["Trainings", "band_of", "draw_learning", "train_seeds"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trainings:
    """Results of trainings that differ only in their seeds.

    Attributes
    ----------
    objective : str
        Name of the measure by which the best weights were chosen.
    seeds : tuple of int
        Seeds of the trainings that were started.
    stems : tuple of Path
        Paths of their weights, without ``.safetensors`` and ``.json``.
    results : tuple of TrainingResult
        Results of the trainings; the last one may be interrupted.
    """

    objective: str
    seeds: tuple[int, ...]
    stems: tuple[Path, ...]
    results: tuple[TrainingResult, ...]

    @property
    def status(self) -> str:
        """``"complete"``, or ``"interrupted"`` if a training was interrupted."""
        return self.results[-1].status

    @property
    def final(self) -> Estimate:
        """Mean over seeds of the best validation result of each, with its 95 % interval."""
        return mean_interval([result.best[self.objective] for result in self.results])

    @property
    def curves(self) -> pl.DataFrame:
        """Learning curves, one row per seed and validation: ``seed``, ``steps``, ``seconds``, and all measures."""
        return pl.DataFrame(
            [
                {"seed": seed, "steps": entry["steps"], "seconds": entry["seconds"], **entry["validation"]}
                for seed, result in zip(self.seeds, self.results, strict=True)
                for entry in result.history
            ]
        )

    def write(self, directory: Path) -> None:
        """Write ``curves.csv``, ``curves.png`` and ``seeds.json``.

        Parameters
        ----------
        directory : Path
            Directory of the files; created if it is missing.
        """
        final = self.final
        document = {
            "status": self.status,
            "objective": self.objective,
            "seeds": {str(seed): one.best for seed, one in zip(self.seeds, self.results, strict=True)},
            "mean": final.mean,
            "half_width": final.half_width if len(self.seeds) > 1 else None,
            "level": final.level,
        }
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(directory / "curves.csv", self.curves.write_csv)
            text = json.dumps(document, indent=1) + "\n"
            write_atomically(directory / "seeds.json", lambda path: path.write_text(text))
            figure = draw_learning(self.curves, self.objective).get_figure(root=True)
            assert figure is not None
            write_atomically(directory / "curves.png", lambda path: figure.savefig(path, format="png"))
        except OSError as error:
            raise RecordError(f"cannot write to {directory}: {error.strerror or error}") from error


def train_seeds(
    settings: TrainingSettings[Any],
    directory: Path,
    count: int,
    *,
    name: str | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Trainings:
    """Train once per seed, starting with the seed of the settings.

    Complete trainings are not repeated, and an interrupted one is resumed.

    Parameters
    ----------
    settings : TrainingSettings
        Settings of the trainings; only the seed varies.
    directory : Path
        Directory with one folder per seed, ``seed-0`` and so on, with checkpoint, weights and model card.
    count : int
        Number of seeds.
    name : str, optional
        Base name of the weight files.
    report : callable, optional
        Function that is called with each new entry of a learning curve, which includes its ``seed``.

    Returns
    -------
    Trainings
        Results of all trainings, up to the first interrupted one.

    Raises
    ------
    InvalidConfiguration
        If ``count`` is below 1, or a folder holds another training.
    """
    check_int("seeds", count, least=1)
    seeds = range(settings.training.seed, settings.training.seed + count)
    stems: list[Path] = []
    results: list[TrainingResult] = []
    for seed in seeds:
        own = replace(settings, training=replace(settings.training, seed=seed))
        folder = directory / f"seed-{seed}"
        stem = folder / (name or settings.default_name)
        told = None if report is None else lambda entry, seed=seed: report({**entry, "seed": seed})
        result = _known(own, stem) or own.train(folder / "checkpoint", told)
        stems.append(stem)
        results.append(result)
        if result.status == "interrupted":
            break
        own.write(stem, result)
    return Trainings(settings.task().objective, tuple(seeds[: len(results)]), tuple(stems), tuple(results))


def _known(settings: TrainingSettings[Any], stem: Path) -> TrainingResult | None:
    """Return the stored result of a complete training with these settings; None if there is none."""
    try:
        weights, card = load_weights(stem)
        with user_code.named_by(f"{stem}.json"):
            known = type(settings).of(card)
    except (RecordError, InvalidConfiguration, KeyError):
        return None
    if known != settings or card.get("status") != "complete":
        return None
    return TrainingResult(weights, card["validation"], card["history"], card["status"])


def band_of(curves: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Return decisions, means and half-widths of the 95 % intervals of some curves, up to the shortest one's end.

    Parameters
    ----------
    curves : sequence of two arrays
        Numbers of decisions in ascending order, and values, which are interpolated linearly.
    """
    last = min(steps[-1] for steps, _ in curves)
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    steps = steps[steps <= last]
    table = np.array([np.interp(steps, known, values) for known, values in curves])
    found = [mean_interval(column) for column in table.T]
    halves = np.array([one.half_width for one in found]) if len(curves) > 1 else np.zeros(len(steps))
    return steps, np.array([one.mean for one in found]), halves


def draw_learning(curves: pl.DataFrame, objective: str, axes: Axes | None = None) -> Axes:
    """Plot the learning curves of several seeds, their mean, and its 95 % interval as a band.

    Parameters
    ----------
    curves : polars.DataFrame
        Table of :attr:`Trainings.curves`.
    objective : str
        Name of the measure to plot.
    axes : Axes, optional
        Axes to draw on. Default: a new figure.
    """
    from desim.plotting.axes import add_legend, group_digits, new_panels, plain, set_titles
    from desim.plotting.colors import OTHER_COLOR, POLICY_COLORS

    (panel,) = new_panels(axes, 1, height=3.6)
    tables = [part.sort("steps") for part in curves.partition_by("seed", maintain_order=True)]
    lines = [(part["steps"].to_numpy().astype(float), part[objective].to_numpy()) for part in tables]
    for steps, values in lines:
        panel.plot(steps, values, color="#999999", linewidth=0.8)
    steps, means, halves = band_of(lines)
    panel.fill_between(steps, means - halves, means + halves, color=OTHER_COLOR, linewidth=0.0, zorder=0)
    (mean,) = panel.plot(steps, means, color=POLICY_COLORS[0], linewidth=2.0)
    plain(panel, grid="y")
    group_digits(panel.xaxis)
    group_digits(panel.yaxis)
    panel.set_xlabel("decisions")
    panel.set_ylabel(objective)
    set_titles(panel, "validation while learning", f"{len(lines)} seeds, each a thin line")
    add_legend([panel], [("mean over seeds", mean), ("95 % interval", {"color": OTHER_COLOR})])
    return panel
