"""``desim view``: write an interactive page of stored runs, or of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from desim.cli.comparison import heading, sentences, tables
from desim.cli.figures import make_directory
from desim.cli.output import print_text
from desim.cli.provenance import provenance, provenance_of
from desim.cli.stored import directory_of, is_comparison, load_comparison, load_named
from desim.exceptions import InvalidConfiguration
from desim.result import Result
from desim.sweep.comparison import LEVEL, Comparison, RunSummary

__all__ = ["View", "write_comparison"]


@dataclass(frozen=True)
class View:
    """Write an interactive page of one run, of several runs side by side, or of a comparison.

    Examples::

        desim view easy
        desim view easy sjf fcfs --out three.html
        desim view comparison --seed 4

    The page is a single file that needs no network. Charts of what ran when and curves over time move and zoom
    together, jobs can be found by id, and a click on a heading sorts a table.
    """

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR", help_behavior_hint="(one or more)")]
    """Results of `desim run`, or one comparison of `desim compare`."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: view.html in the first DIR)")] = None
    """Path of the page; a page of the same name is replaced."""
    seed: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the first seed)")] = None
    """Seed whose runs are drawn, for a comparison."""

    def execute(self) -> int:
        """Write the page and print its path."""
        if not self.directories:
            raise InvalidConfiguration("nothing to show; give one or more results, or a comparison")
        first = self.directories[0]
        out = first / "view.html" if self.out is None else self.out
        if out.is_dir():
            raise InvalidConfiguration(f"--out: got the directory {out}, expected a file")
        compared = is_comparison(self.directories)
        if not compared and self.seed is not None:
            raise InvalidConfiguration("--seed is only for a comparison, but the directories are single runs")
        if self.out is not None:
            make_directory(out.parent)
        page = write_comparison(*load_comparison(first), out, seed=self.seed) if compared else self._runs(out)
        print_text(str(page))
        return 0

    def _runs(self, out: Path) -> Path:
        """Write the page of single runs."""
        from desim.plotting.interactive import view

        results = load_named(self.directories)
        names = ", ".join(results)
        problem = next(iter(results.values())).info.get("problem", "batch")
        title = f"{names}: {problem}" if len(names) < 80 else f"{len(results)} runs: {problem}"
        return view(results, out, title=title, made=provenance() | provenance_of(self.directories, list(results)))


def write_comparison(
    comparison: Comparison,
    summaries: Sequence[RunSummary],
    described: Mapping[str, Any],
    path: Path,
    *,
    seed: int | None = None,
) -> Path:
    """Write the interactive page of a comparison.

    Parameters
    ----------
    comparison : Comparison
        Means, tests and ranks.
    summaries : sequence of RunSummary
        Summaries of the runs, with the directories of their records.
    described : mapping
        Content of ``comparison.json``.
    path : Path
        Path of the page.
    seed : int, optional
        Seed whose runs are drawn; default: the first.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    InvalidConfiguration
        If there are no runs with this seed.
    """
    from desim.plotting.interactive import view
    from desim.plotting.reports import Comparison as Compared

    drawn = comparison.seeds[0] if seed is None else seed
    if drawn not in comparison.seeds:
        raise InvalidConfiguration(f"--seed: got {drawn}, expected one of {', '.join(map(str, comparison.seeds))}")
    results = {one.agent: Result.load(directory_of(one)) for one in summaries if one.seed == drawn}
    criterion, several = comparison.criterion, len(comparison.seeds) > 1
    by = "" if criterion is None else heading(comparison, criterion.metric)
    notes = sentences(comparison)
    if drawn != comparison.seeds[0]:
        notes = [note.replace(f"those of seed {comparison.seeds[0]}.", f"those of seed {drawn}.") for note in notes]
    return view(
        results,
        path,
        kind=comparison.kind,
        title=f"{described['workload']['name']}: agents compared",
        metrics=comparison.table,
        notes=notes,
        comparison=Compared(tables(comparison), comparison.profile, by) if several else None,
        estimates=_estimates(comparison) if several else (),
        made=_settings(described) | provenance() | _command(described),
    )


def _estimates(comparison: Comparison) -> list[Any]:
    """Return the means, and the mean ranks if there are any, with their intervals."""
    from desim.plotting.interactive import Estimates

    by = "bootstrap" if comparison.interval == "bootstrap" else "Student's t"
    note = f"Means over {len(comparison.seeds)} seeds with their {LEVEL:.0%} confidence intervals ({by})."
    found = []
    ranking = comparison.ranking
    for name in comparison.shown:
        rows = [(agent, *row[name][:3]) for agent, row in comparison.means.items()]
        found.append(Estimates(heading(comparison, name), comparison.kind.metrics[name].better or "", rows, note))
    if ranking is not None and comparison.criterion is not None:
        half = ranking.critical_difference / 2.0
        rows = [(agent, rank, rank - half, rank + half) for agent, rank in ranking.mean_ranks.items()]
        label = f"mean rank by {heading(comparison, comparison.criterion.metric)}"
        note = "Mean ranks ± half the critical difference: agents whose bars overlap do not differ significantly "
        found.append(Estimates(label, "lower", rows, f"{note}(Nemenyi, {ranking.level:.0%})."))
    return found


def _settings(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a comparison that were used."""
    found: dict[str, str] = {}
    for name, value in described["options"].items():
        if isinstance(value, Mapping):
            found[name] = ", ".join(f"{key} = {part}" for key, part in value.items() if part is not None)
        elif value is not None and name not in ("as_json", "out", "workers"):
            found[name] = str(value)
    found["seeds"] = ", ".join(map(str, described["seeds"]))
    return {name: text for name, text in found.items() if text}


def _command(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the command line that produced a comparison, if it is known."""
    return {"command": str(described["command"])} if described.get("command") else {}
