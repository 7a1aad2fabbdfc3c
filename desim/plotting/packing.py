"""Arrays packed into one compressed text for a page, whose script unpacks them."""

from __future__ import annotations

import base64
import gzip
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Packed", "Pool", "unpacked"]

#: Code of a missing value among integers.
MISSING = -(2**31)
#: Number of steps per shown time span; times are rounded to these steps, which are invisible.
TIME_STEPS = 2**30
WHOLE = (("u1", 0, 2**8 - 1), ("i2", -(2**15), 2**15 - 1), ("u2", 0, 2**16 - 1), ("i4", MISSING + 1, 2**31 - 1))


class Packed(TypedDict):
    """Location of a packed array: its type, length and first byte, and the scale and offset of its numbers."""

    type: str
    count: int
    at: int
    scale: float
    base: float


class Pool:
    """Collection of packed arrays; equal arrays are stored once.

    Parameters
    ----------
    begin, end : float
        Span of the packed times.
    """

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._step = begin, max(end - begin, 1e-9) / TIME_STEPS
        self._parts: list[bytes] = []
        self._size = 0
        self._known: dict[tuple[str, bytes], Packed] = {}

    def times(self, values: ArrayLike) -> Packed:
        """Pack times, rounded to a billionth of the span; NaN means missing."""
        found = np.asarray(values, dtype=np.float64)
        steps = np.clip((found - self._begin) / self._step, MISSING + 1, 2**31 - 1)
        whole = np.where(np.isfinite(found), np.rint(steps), MISSING)
        return self._pack(whole.astype("<i4"), self._step, self._begin)

    def numbers(self, values: ArrayLike) -> Packed:
        """Pack numbers: integers exactly in as few bytes as possible, others with seven digits."""
        found = np.asarray(values)
        if not len(found):  # whatever the type of nothing
            found = found.astype(np.int64)
        if found.dtype.kind in "bui" or (np.isfinite(found).all() and (found == np.rint(found)).all()):
            low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 0.0)
            for name, least, most in WHOLE:
                if least <= low and high <= most:
                    return self._pack(found.astype(f"<{name}"), 1.0, 0.0)
            return self._pack(found.astype("<f8"), 1.0, 0.0)
        return self._pack(found.astype("<f4"), 1.0, 0.0)

    def _pack(self, values: NDArray[np.generic], scale: float, base: float) -> Packed:
        name, data = values.dtype.str[1:], values.tobytes()
        key = f"{name} {scale} {base}", data
        if key not in self._known:
            self._known[key] = Packed(type=name, count=len(values), at=self._size, scale=scale, base=base)
            filled = data + bytes(-len(data) % 8)  # each array starts at an aligned address
            self._parts.append(filled)
            self._size += len(filled)
        return self._known[key]

    def text(self) -> str:
        """Return all arrays, compressed, as text; the same arrays give the same text."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), 9, mtime=0)).decode()


def unpacked(text: str, packed: Packed) -> NDArray[np.float64]:
    """Return a packed array, as the script of a page does.

    Parameters
    ----------
    text : str
        Text of a :class:`Pool`.
    packed : Packed
        Location of the array.

    Returns
    -------
    array
        Numbers of the array.
    """
    data = gzip.decompress(base64.b64decode(text))
    found = np.frombuffer(data, dtype=f"<{packed['type']}", count=packed["count"], offset=packed["at"])
    values = found.astype(np.float64) * packed["scale"] + packed["base"]
    return np.where(found == MISSING, np.nan, values) if packed["type"] == "i4" else values
