"""The two files of batches of the processed 2017 trace, read side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from desim.exceptions import WorkloadError
from desim.workloads.azure._vm_2017_maps import Bin, Flavor, numbered_lines, shown

__all__ = ["Batch", "Item", "Line", "PairedFiles"]

_BATCH_END = "|"
_DURATION = re.compile(r"([UC])([0-9]{1,6})\Z")


class Item(NamedTuple):
    """A virtual machine of a batch.

    Attributes
    ----------
    flavor : Flavor
        Its size.
    ended : bool
        Whether it ended before the trace did.
    bin : int
        Bin of its duration, or of how long it has been seen.
    """

    flavor: Flavor
    ended: bool
    bin: int


Batch = list[Item]
Numbered = tuple[int, str]


class Line(NamedTuple):
    """What was started within one interval.

    Attributes
    ----------
    number : int
        Line number in the file of durations, from 1.
    time : int
        Beginning of the interval, in seconds.
    batches : list of list of Item
        The batches.
    """

    number: int
    time: int
    batches: list[Batch]


@dataclass(frozen=True)
class PairedFiles:
    """The file of flavors and the file of durations, to be read side by side.

    Parameters
    ----------
    flavors_file, durations_file : str
        Their names, for messages.
    flavors : dict of str to Flavor
        Sizes by letter.
    bins : dict of int to Bin
        Durations by bin.
    """

    flavors_file: str
    durations_file: str
    flavors: dict[str, Flavor]
    bins: dict[int, Bin]
    _items: dict[tuple[str, str], Item] = field(default_factory=dict, init=False)

    def lines(self, flavors: bytes, durations: bytes) -> Iterator[Line]:
        """Read both and check that they tell of the same batches.

        Parameters
        ----------
        flavors, durations : bytes
            What the files hold.

        Yields
        ------
        Line
            In the order of the files, at ascending times.

        Raises
        ------
        WorkloadError
            For the first line that does not fit or differs between the files.
        """
        latest = -1
        pairs = zip_longest(
            numbered_lines(self.flavors_file, flavors), numbered_lines(self.durations_file, durations), fillvalue=None
        )
        for of_flavors, of_durations in pairs:
            if of_flavors is None or of_durations is None:
                raise self._left_over(of_flavors, of_durations)
            where = (
                f"{self.flavors_file}: line {of_flavors[0]}",
                f"{self.durations_file}: line {of_durations[0]}",
            )
            time, letters = _batches(where[0], of_flavors[1])
            other, codes = _batches(where[1], of_durations[1])
            if time <= latest:
                raise WorkloadError(f"{where[0]}: the time is {time}, not after {latest}, that of the line before it")
            if other != time:
                raise WorkloadError(f"{where[1]}: the time is {other}, but {time} in {where[0]}")
            latest = time
            yield Line(of_durations[0], time, self._paired(where, letters, codes))

    def _left_over(self, of_flavors: Numbered | None, of_durations: Numbered | None) -> WorkloadError:
        longer, found = (self.flavors_file, of_flavors) if of_flavors else (self.durations_file, of_durations)
        shorter = self.durations_file if of_flavors else self.flavors_file
        place = found[0] if found else 0
        return WorkloadError(f"{longer}: line {place}: {shorter} ends before it, want as many lines in both")

    def _paired(self, where: tuple[str, str], letters: list[list[str]], codes: list[list[str]]) -> list[Batch]:
        if len(letters) != len(codes):
            raise WorkloadError(f"{where[1]}: {len(codes)} batches, but {len(letters)} in {where[0]}")
        batches = []
        for index, (sizes, ends) in enumerate(zip(letters, codes, strict=True), 1):
            if len(sizes) != len(ends):
                raise WorkloadError(f"{where[1]}: {len(ends)} items in batch {index}, but {len(sizes)} in {where[0]}")
            batches.append([self._item(where, pair) for pair in zip(sizes, ends, strict=True)])
        return batches

    def _item(self, where: tuple[str, str], pair: tuple[str, str]) -> Item:
        """Return what a letter and a code stand for; there are few of them, and each is made once."""
        known = self._items.get(pair)
        if known is None:
            letter, code = pair
            if letter not in self.flavors:
                raise WorkloadError(f"{where[0]}: got {shown(letter)}, want a flavor: one of {' '.join(self.flavors)}")
            match = _DURATION.match(code)
            if match is None or int(match[2]) not in self.bins:
                wanted = f"U or C and a bin between 0 and {max(self.bins)}"
                raise WorkloadError(f"{where[1]}: got {shown(code)}, want {wanted}")
            known = self._items[pair] = Item(self.flavors[letter], match[1] == "U", int(match[2]))
        return known


def _batches(where: str, text: str) -> tuple[int, list[list[str]]]:
    """Split a line such as ``1800000 b,b,|,g,|`` into its time and batches."""
    time, _, sequence = text.partition(" ")
    if not time.isdecimal() or len(time) > 15:
        raise WorkloadError(f"{where}: got {shown(time)}, want a time in whole seconds")
    batches: list[list[str]] = [[]]
    for token in sequence.strip().split(",") if sequence.strip() else []:
        if token != _BATCH_END:
            batches[-1].append(token)
        elif batches[-1]:
            batches.append([])
        else:
            raise WorkloadError(f"{where}: batch {len(batches)} is empty")
    if batches.pop():
        raise WorkloadError(f"{where}: batch {len(batches) + 1} has no end, want '|' after it (a truncated line?)")
    return int(time), batches
