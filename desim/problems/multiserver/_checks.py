"""Whether what a bipartite graph is made of makes sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration

Floats = NDArray[np.float64]


def check_whole_number(name: str, value: object, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise InvalidConfiguration(f"{name} is {value!r}, want a whole number of at least {least}")


def amounts_of(what: str, table: ArrayLike) -> Floats:
    try:
        amounts = np.array(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{what} is not a table of numbers: {error}") from error
    if amounts.ndim != 2 or 0 in amounts.shape:
        raise InvalidConfiguration(f"{what} has shape {amounts.shape}, want two dimensions and at least one of each")
    return frozen(amounts)


def check_amounts(what: str, table: Floats, rows: tuple[str, ...], resources: tuple[str, ...]) -> None:
    wrong = np.argwhere(~((table >= 0) & (table < np.inf)))
    if len(wrong):
        row, resource = wrong[0]
        value = float(table[row, resource])
        raise InvalidConfiguration(
            f"{what} of {rows[row]}, {resources[resource]} is {value!r}, want a finite amount of at least 0"
        )


def names_of(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{what}{index}" for index in range(count))
    if len(names) != count:
        raise InvalidConfiguration(f"{len(names)} {what} names for {count} {what}s")
    result = tuple(map(str, names))
    if len(set(result)) < count:
        repeated = next(name for index, name in enumerate(result) if name in result[:index])
        raise InvalidConfiguration(f"two {what}s are called {repeated!r}")
    return result


def ends_of(channel: Any, port_of: Mapping[str, int], node_of: Mapping[str, int]) -> tuple[int, int]:
    """Return the indices of a channel's port and node."""
    if not isinstance(channel, Sequence | np.ndarray) or len(channel) != 2:
        raise InvalidConfiguration(f"a channel is {channel!r}, want a port and a node")
    return _index("port", channel[0], port_of), _index("node", channel[1], node_of)


def _index(what: str, name: int | str, known: Mapping[str, int]) -> int:
    """Return the index of a port or node that a channel names."""
    if isinstance(name, str):
        if name not in known:
            raise InvalidConfiguration(f"a channel names the unknown {what} {name!r}")
        return known[name]
    if not isinstance(name, int | np.integer) or not 0 <= name < len(known):
        raise InvalidConfiguration(f"a channel names the unknown {what} {name!r}; there are {len(known)}")
    return int(name)


def frozen(array: Floats) -> Floats:
    array.flags.writeable = False
    return array
