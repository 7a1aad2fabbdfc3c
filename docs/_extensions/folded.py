"""A directive for tables that are read from a file of comma-separated values, and folded until they are asked for.

``.. folded-table:: FILE`` takes the name of the file, whose first row has the heads, and, as its content, the line that
is seen. The file can be taken away.
"""

from __future__ import annotations

import csv
import html
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx import addnodes

__all__ = ["FoldedTable", "setup"]

BOUND = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"  # no line ends here


class FoldedTable(Directive):
    """A table of plain texts between the tags of an element that opens by a click."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Return the table, and around it what folds it."""
        document = self.state.document
        path = Path(document.current_source or ".").parent / self.arguments[0]
        document.settings.record_dependencies.add(str(path))
        heads, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        seen, _ = self.state.inline_text(" ".join(self.content), self.lineno)
        summary = "".join(node.astext() for node in seen)
        opening = f'<details class="folded"><summary>{html.escape(summary)}</summary>'
        # The copy to take away; builders that copy no files show its name.
        link = addnodes.download_reference("", path.name, reftarget=self.arguments[0], refdoc="")
        return [
            nodes.raw("", opening, format="html"),
            nodes.raw("", _table(heads, rows), format="html"),
            nodes.paragraph("", "As a file: ", link),
            nodes.raw("", "</details>", format="html"),
        ]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table as HTML: with a node for each cell, these tables took most of the time of their pages."""
    body = "".join(_row(row, "td") for row in rows)
    return (
        '<div class="table-wrapper colwidths-auto docutils container">'
        '<table class="docutils colwidths-auto align-default">'
        f"<thead>{_row(heads, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: list[str], tag: str) -> str:
    texts = (html.escape(cell.replace(" ± ", BOUND)) for cell in cells)
    return "<tr>" + "".join(f"<{tag}><p>{text}</p></{tag}>" for text in texts) + "</tr>"


def setup(app: object) -> None:
    """Add the directive."""
    directives.register_directive("folded-table", FoldedTable)
