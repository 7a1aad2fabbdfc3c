"""Is interrupted if it is given three seeds, refuses five, and finds a fault with seven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from desim.exceptions import InvalidConfiguration
from desim.experiments.report_blocks import Block, Fault, Paragraph
from desim.experiments.study import Study


@dataclass(frozen=True)
class Fourth(Study):
    """No settings of its own."""

    def blocks(self) -> Iterator[Block]:
        yield Paragraph("end")
        if self.seeds == 3:
            raise KeyboardInterrupt("2 of 5 runs are stored")
        if self.seeds == 5:
            raise InvalidConfiguration("density is 0")
        if self.seeds == 7:
            yield Fault("Records are not valid.")
