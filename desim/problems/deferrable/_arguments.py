"""Whether the arguments of a cluster for deferrable jobs make sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from desim.exceptions import InvalidConfiguration

Choice = TypeVar("Choice", bound=str | bool)

#: The column requested_time and the metrics violation_slots and violation_penalty are not those of a resource.
TAKEN = ("time", "slots", "penalty")


def names_of(resources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the resources."""
    names = (resources,) if isinstance(resources, str) else tuple(resources or ())
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidConfiguration(f"the resources are {resources!r}, want names that differ, and at least one")
    for name in names:
        if name in TAKEN:
            raise InvalidConfiguration(f"a resource is called {name!r}, which tables or metrics use for something else")
    return names


def check_num_slots(num_slots: int | None) -> int | None:
    """Return the length of a run."""
    whole = isinstance(num_slots, int | np.integer) and not isinstance(num_slots, bool)
    if num_slots is not None and (not whole or num_slots < 1):
        raise InvalidConfiguration(f"num_slots is {num_slots!r}, want a whole number of at least 1, or None")
    return None if num_slots is None else int(num_slots)


def weights_of(name: str, weights: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return weights, one number for all or one each."""
    try:
        given = np.asarray(weights)
        if given.dtype.kind not in "iuf":
            raise TypeError
        table = np.array(np.broadcast_to(given, (count,)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConfiguration(f"{name} is {weights!r}, want one number or {count}") from error
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidConfiguration(f"{name} is {weights!r}, want finite numbers of at least 0")
    table.flags.writeable = False
    return table


def check_choice(name: str, value: Choice, choices: tuple[Choice, ...]) -> Choice:
    """Return a value that is one of a few."""
    if value not in choices:
        raise InvalidConfiguration(f"{name} is {value!r}, want one of {', '.join(map(repr, choices))}")
    return value
