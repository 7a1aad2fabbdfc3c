"""Interactive page of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from desim.exceptions import InvalidConfiguration
from desim.provenance import provenance
from desim.sweep.comparison import LEVEL, Comparison, RunSummary
from desim.sweep.tables import heading, sentences, tables

__all__ = ["write_comparison"]


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
    results = {one.agent: one.load() for one in summaries if one.seed == drawn}
    criterion, several = comparison.criterion, len(comparison.seeds) > 1
    by = "" if criterion is None else heading(comparison, criterion.metric)
    notes = sentences(comparison)
    if drawn != comparison.seeds[0]:
        first = f"those of {comparison.pair} {comparison.seeds[0]}."
        notes = [note.replace(first, f"those of {comparison.pair} {drawn}.") for note in notes]
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
    note = f"Means over {len(comparison.seeds)} {comparison.pair}s with their {LEVEL:.0%} confidence intervals ({by})."
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
    found[f"{described.get('pair', 'seed')}s"] = ", ".join(map(str, described["seeds"]))
    found["data"] = described["workload"].get("citation", "")
    return {name: text for name, text in found.items() if text}


def _command(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the command line that produced a comparison, if it is known."""
    return {"command": str(described["command"])} if described.get("command") else {}
