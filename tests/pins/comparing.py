"""Digests of the columns of a run, and how two sets of them compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

__all__ = [
    "ABSENT",
    "Difference",
    "compare",
    "digest_of_array",
    "digest_of_column",
    "digest_of_text",
    "present_name",
    "wanted",
]

ABSENT = "-"
"""Stands for a column that a scenario's tables do not have."""


def digest_of_text(text: str) -> str:
    """Return twelve hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digest_of_array(values: np.ndarray) -> str:
    """Return a digest of an array: its shape, its kind of numbers, and these."""
    kind = {"b": "<i8", "i": "<i8", "u": "<i8", "f": "<f8"}[values.dtype.kind]
    numbers = np.ascontiguousarray(values.astype(kind))
    return hashlib.sha256(repr((kind, values.shape)).encode() + numbers.tobytes()).hexdigest()[:12]


def digest_of_column(column: pl.Series) -> str:
    """Return a digest of the values in their order; how many bytes a number takes does not count."""
    digest = hashlib.sha256(str(len(column)).encode())
    digest.update(column.is_null().to_numpy().tobytes())
    if column.dtype == pl.Null:
        return digest.hexdigest()[:12]
    if column.dtype == pl.Boolean or column.dtype.is_integer():
        digest.update(column.cast(pl.Int64).fill_null(0).to_numpy().astype("<i8").tobytes())
    elif column.dtype.is_float():
        numbers = column.cast(pl.Float64).fill_null(0.0).to_numpy().astype("<f8")
        digest.update(np.where(np.isnan(numbers), np.nan, numbers).tobytes())
    else:
        values = column.cast(pl.String).to_list() if not column.dtype.is_nested() else column.to_list()
        digest.update(json.dumps(values, default=str).encode())
    return digest.hexdigest()[:12]


@dataclass
class Difference:
    """What has become of the columns of a problem.

    Attributes
    ----------
    equal : list of str
        Columns that are as they were in all scenarios.
    differ : dict of str to list of int
        Columns that are not, with the places of the scenarios.
    new, gone : list of str
        Columns without a digest, and digests without a column.
    """

    equal: list[str] = field(default_factory=list)
    differ: dict[str, list[int]] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @property
    def is_fine(self) -> bool:
        """Whether nothing was lost or changed; what is new does no harm."""
        return not self.differ and not self.gone

    def restricted(self, to: Callable[[str], bool]) -> Difference:
        """Return the columns whose names fit."""
        return Difference(
            list(filter(to, self.equal)),
            {name: places for name, places in self.differ.items() if to(name)},
            list(filter(to, self.new)),
            list(filter(to, self.gone)),
        )

    def in_words(self, what: str) -> str:
        """Say it in one line; the differences of a column are counted in this unit."""
        parts = [f"{len(self.equal)} columns equal"]
        for word, names in (("GONE", self.gone), ("new", self.new)):
            parts += [f"{len(names)} {word}: {', '.join(names)}"] if names else []
        differ = [f"{name} ({len(places)} {what}{self._first(places)})" for name, places in self.differ.items()]
        parts += [f"{len(differ)} DIFFER: {', '.join(differ)}"] if differ else []
        return "; ".join(parts)

    @staticmethod
    def _first(places: list[int]) -> str:
        return f": {', '.join(map(str, places[:3]))}{', ...' if places[3:] else ''}" if any(places) else ""


def present_name(name: str, renamed: Mapping[str, str | None]) -> str | None:
    """Return what a column of the digests is called now.

    Parameters
    ----------
    name : str
        As it was, ``"table.column"``.
    renamed : mapping
        Of old names to new ones, see `tests.pins.renamed`.

    Returns
    -------
    str or None
        None if it is gone on purpose.
    """
    if name in renamed:
        return renamed[name]
    table, _, column = name.partition(".")
    if table not in renamed:
        return name
    new = renamed[table]
    return None if new is None else f"{new}.{column}"


def wanted(name: str, only: Sequence[str]) -> bool:
    """Return whether a column matches patterns such as ``"jobs.*"``."""
    return not only or any(fnmatchcase(name, pattern) for pattern in only)


def compare(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]], renamed: Mapping[str, str | None]
) -> Difference:
    """Compare digests by column.

    Parameters
    ----------
    old, new : mapping of str to sequence of str
        By column, a digest a scenario, :data:`ABSENT` where a scenario does not have it.
    renamed : mapping
        Of old names to new ones.

    Returns
    -------
    Difference
        Its names are the new ones.
    """
    found = Difference()
    names: dict[str, Any] = {name: present_name(name, renamed) for name in old}
    for before, now in names.items():
        if now is None:
            continue
        if now not in new:
            found.gone.append(now)
            continue
        places = [place for place, (one, two) in enumerate(zip(old[before], new[now], strict=True)) if one != two]
        if places:
            found.differ[now] = places
        else:
            found.equal.append(now)
    found.new = [name for name in new if name not in set(names.values())]
    return found
