"""Has a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from desim.experiments.report_blocks import Block
from desim.experiments.study import Study


@dataclass(frozen=True)
class Third(Study):
    """No settings of its own."""

    def blocks(self) -> Iterator[Block]:
        raise ZeroDivisionError("in the program")
