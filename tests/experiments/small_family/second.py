"""Fails with an error of desim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from desim.exceptions import DesimError
from desim.experiments.report_blocks import Block, Paragraph
from desim.experiments.study import Study


@dataclass(frozen=True)
class Second(Study):
    """No settings of its own."""

    def blocks(self) -> Iterator[Block]:
        yield Paragraph("half")
        raise DesimError("a run has failed")
