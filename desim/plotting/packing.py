"""Arrays packed into one compressed text for a page, which its script takes apart again."""

from __future__ import annotations

import base64
import gzip
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Packed", "Pool", "unpacked"]

#: What a missing number is among whole ones.
MISSING = -(2**31)
#: Times are whole multiples of the span that is shown over this, which nobody can see.
TIME_STEPS = 2**30
WHOLE = (("u1", 0, 2**8 - 1), ("i2", -(2**15), 2**15 - 1), ("u2", 0, 2**16 - 1), ("i4", MISSING + 1, 2**31 - 1))


class Packed(TypedDict):
    """Where an array stands: its type, length, first byte, and what its numbers are multiplied by and added to."""

    type: str
    count: int
    at: int
    scale: float
    base: float


class Pool:
    """Collects arrays; equal ones are kept once.

    Parameters
    ----------
    begin, end : float
        The span of the times that are packed.
    """

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._step = begin, max(end - begin, 1e-9) / TIME_STEPS
        self._parts: list[bytes] = []
        self._size = 0
        self._known: dict[tuple[str, bytes], Packed] = {}

    def times(self, values: ArrayLike) -> Packed:
        """Pack times, which are rounded to a billionth of the span; NaN where there is none."""
        found = np.asarray(values, dtype=np.float64)
        steps = np.clip((found - self._begin) / self._step, MISSING + 1, 2**31 - 1)
        whole = np.where(np.isfinite(found), np.rint(steps), MISSING)
        return self._pack(whole.astype("<i4"), self._step, self._begin)

    def numbers(self, values: ArrayLike) -> Packed:
        """Pack numbers: whole ones exactly and in as few bytes as they need, others to seven digits."""
        found = np.asarray(values)
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
            filled = data + bytes(-len(data) % 8)  # each array begins where its type may begin
            self._parts.append(filled)
            self._size += len(filled)
        return self._known[key]

    def text(self) -> str:
        """Return all arrays, compressed, as text; the same arrays make the same text."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), 9, mtime=0)).decode()


def unpacked(text: str, packed: Packed) -> NDArray[np.float64]:
    """Return an array that was packed; what the script of a page does.

    Parameters
    ----------
    text : str
        Of a :class:`Pool`.
    packed : Packed
        The array.

    Returns
    -------
    array
        Its numbers.
    """
    data = gzip.decompress(base64.b64decode(text))
    found = np.frombuffer(data, dtype=f"<{packed['type']}", count=packed["count"], offset=packed["at"])
    values = found.astype(np.float64) * packed["scale"] + packed["base"]
    return np.where(found == MISSING, np.nan, values) if packed["type"] == "i4" else values
