"""Interactive page of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from desim.exceptions import InvalidConfiguration
from desim.notes import plain
from desim.provenance import provenance
from desim.sweep.comparison import Comparison
from desim.sweep.tables import sentences

__all__ = ["write_comparison"]

#: Number of seeds or windows up to which all are listed.
FEW = 10


def write_comparison(comparison: Comparison, path: Path, *, seed: int | None = None) -> Path:
    """Write the interactive page of a comparison.

    Parameters
    ----------
    comparison : Comparison
        Comparison whose runs were stored.
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

    drawn = comparison.seeds[0] if seed is None else seed
    if drawn not in comparison.seeds:
        raise InvalidConfiguration(f"--seed: got {drawn}, expected one of {', '.join(map(str, comparison.seeds))}")
    results = {one.policy: one.load() for one in comparison.all_runs if one.seed == drawn}
    command = {"command": comparison.command} if comparison.command else {}
    notes = sentences(comparison)
    if drawn != comparison.seeds[0]:
        first = f"those of {comparison.pair} {comparison.seeds[0]}."
        notes = [note.replace(first, f"those of {comparison.pair} {drawn}.") for note in notes]
    return view(
        results,
        path,
        kind=comparison.kind,
        title=f"{comparison.workload['name']}: agents compared",
        metrics=comparison.mean_table,
        notes=notes,
        comparison=comparison if len(comparison.seeds) > 1 else None,
        made=_settings(comparison) | provenance() | command,
    )


def _settings(comparison: Comparison) -> dict[str, str]:
    """Return the settings of a comparison that were used."""
    found: dict[str, str] = {}
    for name, value in plain(comparison.options).items():
        if isinstance(value, Mapping):
            found[name] = ", ".join(f"{key} = {part}" for key, part in value.items() if part is not None)
        elif value is not None and name not in ("as_json", "out", "workers"):
            found[name] = str(value)
    found[f"{comparison.pair}s"] = _in_words(comparison.seeds)
    found["data"] = comparison.workload.get("citation", "")
    return {name: text for name, text in found.items() if text}


def _in_words(numbers: Sequence[int]) -> str:
    """Return numbers in a few words if they are many in a row, otherwise all of them."""
    if len(numbers) > FEW and list(numbers) == [*range(numbers[0], numbers[-1] + 1)]:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
