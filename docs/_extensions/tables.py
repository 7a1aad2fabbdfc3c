"""Directives that show what the code itself lists: metrics, validation rules, reasons of repair reports, agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["setup"]

Rows = Iterable[tuple[str, ...]]


def _metrics() -> Rows:
    from desim.metrics import BATCH_METRICS

    return [("metric", "meaning"), *((f"``{name}``", meaning) for name, meaning in BATCH_METRICS.items())]


def _rules() -> Rows:
    from desim.validation import BATCH_RULES

    return [("rule", "meaning"), *((f"``{name}``", meaning) for name, meaning in BATCH_RULES.items())]


def _reasons() -> Rows:
    from desim.workloads.report import Reason

    rows = ((f"``{reason.name}``", reason.action, reason.meaning) for reason in Reason)
    return [("reason", "row", "meaning"), *rows]


def _agents() -> Rows:
    from desim.agents.batch import descriptions

    return [("name", "what it does"), *((f"``{name}``", text) for name, text in descriptions().items())]


def _directive(rows: Callable[[], Rows], widths: str) -> type[SphinxDirective]:
    class Table(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
            for row in rows():
                lines += [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(row)]
            node = nodes.container()
            self.state.nested_parse(StringList([*lines, ""], "generated"), 0, node)
            return node.children

    return Table


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("metrics-table", _directive(_metrics, "35 65"))
    app.add_directive("rules-table", _directive(_rules, "30 70"))
    app.add_directive("reasons-table", _directive(_reasons, "35 15 50"))
    app.add_directive("agents-table", _directive(_agents, "40 60"))
