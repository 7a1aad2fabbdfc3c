"""Directives that show what the code itself lists: tables, metrics, rules, reasons of repair reports, agents.

They take the name of a problem: ``.. metrics-table:: batch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from desim.tables import Column
    from desim.workloads.catalogue import Entry

__all__ = ["setup"]

Rows = Iterable[tuple[str, ...]]


def _metrics(problem: str) -> Rows:
    from desim.problem import kind_of

    rows = ((f"``{metric.name}``", metric.meaning, metric.better or "") for metric in kind_of(problem).metrics)
    return [("metric", "meaning", "better"), *rows]


def _rules(problem: str) -> Rows:
    from desim.validation import rules_of

    return [("rule", "what holds"), *((f"``{name}``", sentence) for name, sentence in rules_of(problem).items())]


def _records(problem: str) -> Rows:
    """Return the columns of all tables of a problem: one block a table, headed by its name."""
    from desim.problem import kind_of

    rows: list[tuple[str, ...]] = [("column", "type", "meaning")]
    for table in kind_of(problem).tables:
        rows.append((f"**{table.name}**", "", f"a row: {table.meaning}"))
        rows += [(f"``{column.name}``", column.dtype, _meaning(column)) for column in table.columns]
    return rows


def _meaning(column: Column) -> str:
    """Return all that a column says of itself, as a sentence."""
    parts = [column.meaning + (f", in {column.unit}" if column.unit else "")]
    parts += [f"``{column.formula}``"] if column.formula else []
    parts += ["one of " + ", ".join(f"``{value}``" for value in column.values)] if column.values else []
    parts += ["null unless " + ", ".join(f"``{status}``" for status in column.given)] if column.given else []
    parts += [f"null {column.null}"] if column.null else []
    parts += [f"one for each of ``{column.each}``"] if column.each else []
    return "; ".join(parts)


def _reasons(problem: str) -> Rows:
    from desim.workloads.batch.trace import TraceReason

    rows = ((f"``{reason.name}``", reason.action, reason.meaning) for reason in TraceReason)
    return [("reason", "row", "meaning"), *rows]


def _agents(problem: str) -> Rows:
    from desim.plugins import describe_agents

    return [("name", "what it does"), *((f"``{name}``", text) for name, text in describe_agents(problem).items())]


def _catalogue(problem: str) -> Rows:
    from desim.workloads.catalogue import entries

    return [
        ("name", "problem", "what it is"),
        *((f"``{one.name}``", one.problem, _said(one)) for one in entries().values()),
    ]


def _said(entry: Entry) -> str:
    """Return all that the catalogue says of a workload."""
    sizes = [f"{count:,} {unit}" for count, unit in ((entry.jobs, "jobs"), (entry.cores, "cores")) if count is not None]
    parts = {
        "": "; ".join([entry.about, *sizes]),
        "source": f"{entry.source}, `{entry.file.rpartition('/')[2]} <{entry.url}>`__",
        "cite": entry.citation,
        "licence": entry.licence,
        "note": entry.oddities,
        "checked by": "its digest" if entry.sha256 else "its header",
    }
    return ". ".join(f"*{name}*: {text}" if name else text for name, text in parts.items() if text)


def _directive(rows: Callable[[str], Rows], widths: str) -> type[SphinxDirective]:
    class Table(SphinxDirective):
        optional_arguments = 1

        def run(self) -> list[nodes.Node]:
            lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
            for row in rows(self.arguments[0] if self.arguments else "batch"):
                lines += [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(row)]
            node = nodes.container()
            self.state.nested_parse(StringList([*lines, ""], "generated"), 0, node)
            return node.children

    return Table


def setup(app: Sphinx) -> None:
    """Add the directives."""
    app.add_directive("metrics-table", _directive(_metrics, "32 58 10"))
    app.add_directive("records-table", _directive(_records, "30 10 60"))
    app.add_directive("rules-table", _directive(_rules, "30 70"))
    app.add_directive("reasons-table", _directive(_reasons, "35 15 50"))
    app.add_directive("catalogue-table", _directive(_catalogue, "15 12 73"))
    app.add_directive("agents-table", _directive(_agents, "40 60"))
