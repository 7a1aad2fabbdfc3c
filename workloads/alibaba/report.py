"""What a reader of trace tables changed or noticed, counted by column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from desim.workloads.report import EXAMPLES

__all__ = ["TableReport"]

Finding = Literal["cleared", "outside"]


@dataclass
class TableReport:
    """Counts of the values that were cleared, or are remarkable, in a table.

    Parameters
    ----------
    rows : int
        Rows read.
    cleared : dict of str to int
        Values by column that stand for an unknown number (-1 and 101 for normalized ones) and were read as null.
    outside : dict of str to int
        Values by column that lie outside the range that the source states, and were kept.
    lines : dict of tuple to list of int
        By finding and column, the first few lines of the file.
    """

    rows: int = 0
    cleared: dict[str, int] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    lines: dict[tuple[Finding, str], list[int]] = field(default_factory=dict)

    def add(self, finding: Finding, column: str, lines: Iterable[int]) -> None:
        """Count one value for each line.

        Parameters
        ----------
        finding : {"cleared", "outside"}
            What happened.
        column : str
            Name of the column.
        lines : iterable of int
            Line numbers in the file, from 1, in the order of the file.
        """
        found = [int(line) for line in lines]
        if not found:
            return
        counts = self.cleared if finding == "cleared" else self.outside
        counts[column] = counts.get(column, 0) + len(found)
        known = self.lines.setdefault((finding, column), [])
        known.extend(found[: EXAMPLES - len(known)])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON.

        Returns
        -------
        dict
            ``rows``, and for ``cleared`` and ``outside``, by column, ``count`` and ``lines``.
        """
        parts: tuple[tuple[Finding, dict[str, int]], ...] = (("cleared", self.cleared), ("outside", self.outside))
        return {"rows": self.rows} | {
            finding: {
                column: {"count": count, "lines": list(self.lines[finding, column])} for column, count in counts.items()
            }
            for finding, counts in parts
        }

    def __str__(self) -> str:
        """Return a table: one line for each finding and column."""
        text = [f"{self.rows:,} rows: {sum(self.cleared.values()):,} values cleared"]
        if not self.lines:
            return text[0]
        wide = max(len(column) for _, column in self.lines)
        text.append(f"{'finding':<8}{'count':>11}  {'column':<{wide}}  lines")
        for finding in ("cleared", "outside"):
            counts = self.cleared if finding == "cleared" else self.outside
            for column, count in counts.items():
                lines = self.lines[finding, column]
                more = ", ..." if count > len(lines) else ""
                text.append(f"{finding:<8}{count:>11,}  {column:<{wide}}  {', '.join(map(str, lines))}{more}")
        return "\n".join(text)
