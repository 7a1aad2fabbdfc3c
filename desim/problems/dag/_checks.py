"""Whether what jobs and executors are made of makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import DesimError

Floats = NDArray[np.float64]


def numbers_of(what: str, values: ArrayLike, error: type[DesimError]) -> Floats:
    """Return a read-only copy as float64."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise error(f"{what}: want numbers ({problem})") from problem
    array.flags.writeable = False
    return array


def names_of(
    what: str, names: Sequence[Any] | None, count: int, error: type[DesimError], prefix: str = ""
) -> tuple[str, ...]:
    """Return names as text, made up if there are none."""
    if names is None:
        return tuple(f"{what}{index}" for index in range(count))
    if len(names) != count:
        raise error(f"{prefix}{len(names)} {what} names for {count} {what}s")
    result = tuple(map(str, names))
    if len(set(result)) < count:
        seen: set[str] = set()
        repeated = next(name for name in result if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise error(f"{prefix}two {what}s are called {repeated!r}")
    return result


def first_wrong(wrong: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Return the index of the first True, or None."""
    found = np.argwhere(wrong)
    return tuple(found[0].tolist()) if len(found) else None


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message, and how many are left out."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
