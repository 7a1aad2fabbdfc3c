"""Cells of table columns of any kind: lists, missing values, numbers, words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from desim.exceptions import InvalidConfiguration

__all__ = ["cells_of", "found_columns", "is_missing", "number", "several", "values_of"]

_MISSING = ("", "NA", "NaN", "nan", "null", "None", "<NA>", "NULL", "\\N")


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column of any kind as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def found_columns(
    columns: Mapping[str, Any], names: Mapping[str, str], known: Mapping[str, tuple[str, ...]], prefix: str = ""
) -> dict[str, str]:
    """Return names of columns by content: the caller's, or else the first known one, and all with a prefix."""
    found = {what: name for what, name in names.items() if what in known and name in columns}
    for what, possible in known.items():
        name = next((name for name in possible if name in columns), None)
        if what not in found and name is not None:
            found[what] = name
    return found | {name: name for name in columns if prefix and name.startswith(prefix)}


def is_missing(cell: Any) -> bool:
    """Return whether a cell has no value."""
    if isinstance(cell, list | tuple | np.ndarray):
        return False
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or str(cell).strip() in _MISSING


def values_of(column: Any) -> list[Any]:
    """Return the cells of a column, None where missing; text becomes integers or numbers if all of it can."""
    cells = [None if is_missing(cell) else cell for cell in cells_of(column)]
    if not any(isinstance(cell, str) for cell in cells):
        return cells
    for kind in (int, float, str.strip):
        try:
            return [None if cell is None else kind(cell) for cell in cells]
        except ValueError:
            continue
    raise AssertionError("any cell can be text")


def number(name: str, cell: Any) -> float:
    """Return a cell as a number; `name` is the column, for messages."""
    try:
        if isinstance(cell, bool):
            raise ValueError
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        raise InvalidConfiguration(f"{name}: got {cell!r}, expected a number")
    return value


def several(cell: Any) -> tuple[str, ...]:
    """Return the words of a cell; in text they are separated by blanks or ``|``."""
    words = cell.replace("|", " ").split() if isinstance(cell, str) else list(map(str, cell))
    return tuple(words)
