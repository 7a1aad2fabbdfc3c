"""Validation of recorded runs, independent of the simulator.

A `Rule` has a name, a sentence, and checks. A ``Check`` selects the invalid rows of a table by a polars expression or a
function of the run, and has a message that is filled with the values of such a row. The descriptions of the tables
(types, nulls, least values, columns per status, formulas) give rules automatically, see `standard_rules`; each problem
adds its own in ``desim.problems.NAME.rules``. Rules share these descriptions with the simulator, and nothing else, so
that an error in the simulator cannot hide itself.

A run may be longer than memory is large. Checks of single rows read a table in portions, as do checks that first test
whether any row is invalid; whole tables are read only to describe violations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, groupby, islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.problem import kind_of
from desim.reprs import Summarized
from desim.result import RUN, Result
from desim.tables import Column, Table, fault_of

if TYPE_CHECKING:
    from desim.problem import ProblemDescriptor

__all__ = [
    "Bounds",
    "Check",
    "Recorded",
    "Rule",
    "RuleBook",
    "ValidationReport",
    "Violation",
    "ViolationCollector",
    "check_totals",
    "conservation_rule",
    "duplicated",
    "horizon_rule",
    "rounding",
    "rule",
    "rules_of",
    "single_row",
    "standard_rules",
    "sums_at",
    "sums_from",
    "unique_ids_rule",
    "validate",
]

Found = TypeVar("Found")
Finding = TypeVar("Finding", bound="pl.Expr | Callable[..., pl.Expr | pl.DataFrame]")


class Violation(NamedTuple):
    """One violation of a rule.

    Attributes
    ----------
    rule : str
        Name of the rule.
    message : str
        Message with the job, time or core, and the contradictory values.
    """

    rule: str
    message: str

    def __str__(self) -> str:
        """Return rule and message as text."""
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True, repr=False)
class ValidationReport(Summarized):
    """Outcome of a validation.

    Attributes
    ----------
    violations : tuple of Violation
        Violations in the order of the rules; at most ``stop_after`` per rule.
    counts : mapping of str to int
        Number of all violations, by violated rule.
    checks : mapping of str to int
        Number of rows checked, by rule (of the largest table involved).
    """

    violations: tuple[Violation, ...]
    counts: Mapping[str, int]
    checks: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether no rule is violated."""
        return not self.counts

    def raise_if_invalid(self) -> None:
        """Raise an error that lists the violations, if there are any.

        Raises
        ------
        DesimError
            If a rule is violated.
        """
        if not self.ok:
            raise DesimError(str(self))

    def summary(self) -> dict[str, object]:
        """Return whether the run is valid, and the number of violations, for ``repr`` and notebooks."""
        found: dict[str, object] = {
            "ok": self.ok,
            "rules": len(self.checks),
            "rows": max(self.checks.values(), default=0),
        }
        return found if self.ok else found | {"violations": sum(self.counts.values()), "broken": ", ".join(self.counts)}

    def __str__(self) -> str:
        """Return one line if the run is valid, otherwise the violations by rule."""
        rows = max(self.checks.values(), default=0)
        if self.ok:
            return f"valid: {len(self.checks)} rules hold ({rows} rows in the largest table)"
        lines = [f"invalid: {sum(self.counts.values())} violations of {len(self.counts)} of {len(self.checks)} rules"]
        for rule, count in self.counts.items():
            shown = [violation.message for violation in self.violations if violation.rule == rule]
            lines.append(f"  {rule} ({count} of {self.checks[rule]} rows)")
            lines += [f"    {message}" for message in shown]
            if len(shown) < count:
                lines.append(f"    and {count - len(shown)} more")
        return "\n".join(lines)


class ViolationCollector:
    """Collector of the outcomes of checks.

    Parameters
    ----------
    stop_after : int
        Number of violations to describe per rule; all are counted.

    Raises
    ------
    InvalidConfiguration
        If ``stop_after`` is less than 1.
    """

    def __init__(self, stop_after: int) -> None:
        if stop_after < 1:
            raise InvalidConfiguration(f"stop_after: got {stop_after!r}, expected at least 1")
        self._stop_after = stop_after
        self._messages: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._checks: dict[str, int] = {}

    def check(
        self, rule: str, rows: int, wrong: NDArray[np.bool_] | NDArray[np.int64], message: Callable[[int], str]
    ) -> None:
        """Add the outcome of one check; a rule may consist of several.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            Number of rows checked.
        wrong : array of bool or of int
            Violating rows, as a mask or by index.
        message : callable
            Called with an index, returns the description of the violation.
        """
        self._checks[rule] = max(rows, self._checks.get(rule, 0))
        indices = np.flatnonzero(wrong) if wrong.dtype == np.bool_ else wrong
        if len(indices):
            self._counts[rule] = self._counts.get(rule, 0) + len(indices)
            messages = self._messages.setdefault(rule, [])
            room = max(self._stop_after - len(messages), 0)
            messages += [message(int(index)) for index in indices[:room]]

    def note(self, rule: str, rows: int, messages: list[str]) -> None:
        """Add violations that are already described.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            Number of rows checked.
        messages : list of str
            Descriptions of the violations; empty if there are none.
        """
        self.check(rule, rows, np.arange(len(messages)), messages.__getitem__)

    def report(self) -> ValidationReport:
        """Return the outcome so far.

        Returns
        -------
        ValidationReport
            Violations in the order of the rules, and the checks.
        """
        violations = [Violation(rule, text) for rule, messages in self._messages.items() for text in messages]
        return ValidationReport(tuple(violations), dict(self._counts), dict(self._checks))


class Recorded:
    """A run as rules see it.

    Parameters
    ----------
    result : Result
        Run whose tables have been checked for their columns.
    workload : iterable or None
        Simulated workload.
    portion : mapping of str to polars.DataFrame
        Tables that are restricted to some of their rows.

    Attributes
    ----------
    info : dict
        Description of the run.
    end_time, until : float
        Actual and latest end of the run; the latter may be infinite.
    """

    def __init__(
        self, result: Result, workload: Iterable[Any] | None, portion: Mapping[str, pl.DataFrame] | None = None
    ) -> None:
        self._result = result
        self._portion = portion or {}
        self.workload = workload
        self.info = result.info
        self.end_time = result.end_time
        planned = (self.info["until"], self.info.get("num_slots"))
        self.until = min((float(end) for end in planned if end is not None), default=math.inf)
        self._views: dict[Callable[[Any], Any], Any] = {}

    def __getitem__(self, table: str) -> pl.DataFrame:
        """Return a table, or the rows that it is restricted to."""
        return self._portion[table] if table in self._portion else self._result.table(table)

    def portions(
        self, table: str, columns: Sequence[str] | None = None, *, by: Sequence[str] = (), in_order: bool = True
    ) -> Iterator[pl.DataFrame]:
        """Yield a table, or some of its columns, in portions; see `desim.Result.portions`."""
        return self._result.portions(table, columns, by=by, in_order=in_order)

    def height(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._result.height(table)

    def column(self, table: str, name: str) -> pl.Series:
        """Return a column of a table, in any order."""
        return pl.concat([portion[name] for portion in self.portions(table, [name], in_order=False)])

    def where(self, table: str, wanted: pl.Expr) -> pl.DataFrame:
        """Return the rows of a table for which an expression holds; the expression must not depend on other rows."""
        return self._result.scan(table).filter(wanted).collect()

    def only(self, table: str, rows: pl.DataFrame) -> Recorded:
        """Return the run with one table restricted to some rows."""
        if len(rows) == self.height(table):
            return self
        return Recorded(self._result, self.workload, {table: rows})

    @property
    def drained(self) -> bool:
        """Whether the run continued until no event was left."""
        return self.info["status"] in ("complete", "stalled") and self.end_time < self.until

    def once(self, view: Callable[[Recorded], Found]) -> Found:
        """Return the value of a function of the run that several checks need; it is computed once."""
        if view not in self._views:
            self._views[view] = view(self)
        found: Found = self._views[view]
        return found


Wrong = pl.Expr | Callable[[Recorded], pl.Expr | pl.DataFrame]


@dataclass(frozen=True)
class Check:
    """One part of a rule.

    Attributes
    ----------
    of : str or callable
        Table whose rows are checked, or a function of the run that returns it joined with data of other tables;
        the function is called once per run.
    wrong : polars.Expr or callable
        Expression that is true for violating rows (null counts as false), or a function of the run that returns such an
        expression, or a function that returns a frame with one row per violation.
    message : str or callable
        Message for a violation: a format string of the columns of its row and of ``run``, or a function of the run and
        the row if the details are expensive to find.
    when : callable or None
        Returns whether the check applies to a run.
    by_row : bool
        Whether each row is checked by itself, so that a long table can be checked in portions. ``wrong`` must then not
        count, shift or compare rows.
    of_rows : bool
        Whether violations are rows of the table ``of``, so that an empty table has none and costs nothing.
    """

    of: str | Callable[[Recorded], pl.DataFrame]
    wrong: Wrong
    message: str | Callable[[Recorded, dict[str, Any]], str]
    when: Callable[[Recorded], bool] | None = None
    by_row: bool = False
    of_rows: bool = False

    def rows(self, run: Recorded) -> pl.DataFrame:
        """Return the rows to check."""
        return run[self.of] if isinstance(self.of, str) else run.once(self.of)


@dataclass(frozen=True)
class Rule:
    """One rule for valid runs.

    Attributes
    ----------
    name : str
        Short name; reports count violations by it.
    sentence : str
        What holds for every valid run, as a sentence.
    checks : tuple of Check
        Checks, none of which may find a violation.
    needs_workload : bool
        Whether the rule can be checked only with the simulated workload.
    vital : bool
        Whether the following rules make no sense if this one is violated; they are then skipped.
    """

    name: str
    sentence: str
    checks: tuple[Check, ...] = ()
    needs_workload: bool = False
    vital: bool = False


def rule(name: str, sentence: str, *checks: Check, needs_workload: bool = False, vital: bool = False) -> Rule:
    """Return a rule with its checks given one by one; see :class:`Rule`."""
    return Rule(name, sentence, checks, needs_workload, vital)


class RuleBook(list[Rule]):
    """Rules in the order of checking, each written beside the functions that find its violations.

    Parameters
    ----------
    only_with : str
        Name in the description of a run without which the checks do not apply (default: they apply to all runs).
    """

    def __init__(self, only_with: str = "") -> None:
        super().__init__()
        self._only_with = only_with

    def rule(self, name: str, of: str, sentence: str, *, needs_workload: bool = False) -> None:
        """Begin a rule, to which :meth:`check` adds checks.

        Parameters
        ----------
        name : str
            Short name.
        of : str
            Table whose rows are checked.
        sentence : str
            What holds for every valid run.
        needs_workload : bool
            Whether the rule can be checked only with the simulated workload.
        """
        self.append(Rule(name, sentence, needs_workload=needs_workload))
        self._of = of

    def check(
        self, message: str, *, of: str = "", only_with: str = "", by_row: bool = False, of_rows: bool = False
    ) -> Callable[[Finding], Finding]:
        """Return a decorator that adds what finds violations to the last rule, as a :class:`Check`.

        Parameters
        ----------
        message : str
            Message for a violation.
        of, only_with : str
            Table and name of this check (default: those of the rule and of all rules).
        by_row : bool
            Whether each row is checked by itself.
        of_rows : bool
            Whether violations are rows of the table.

        Returns
        -------
        callable
            Function that adds an expression or a function and returns it.
        """
        name = only_with or self._only_with
        when = (lambda run: name in run.info) if name else None

        def add(wrong: Finding) -> Finding:
            """Add a check to the last rule."""
            checks = (*self[-1].checks, Check(of or self._of, wrong, message, when, by_row, of_rows))
            self[-1] = replace(self[-1], checks=checks)
            return wrong

        return add


def validate(result: Result, workload: Iterable[Any] | None = None, *, stop_after: int = 20) -> ValidationReport:
    """Validate the records of a run against the rules of its problem.

    Parameters
    ----------
    result : Result
        Run with any status.
    workload : iterable, optional
        Simulated workload (jobs; for the multi-server cluster, rows of arrivals), to check that nothing was lost,
        invented or changed. It is read once, and no further than the run went.
    stop_after : int
        Number of violations to describe per rule; all are counted.

    Returns
    -------
    ValidationReport
        Violations and checks; ``ok`` is True for a valid run. The validation ends early if ``description``, ``columns``
        or a vital rule is violated.

    Raises
    ------
    InvalidConfiguration
        If the result's problem has no rules, or ``stop_after`` is less than 1.
    """
    kind = kind_of(result)
    if not (kind.rules or kind.tables):
        raise InvalidConfiguration(
            f"no rules for problem {result.info.get('problem')!r} (run status {result.info.get('status')!r}): "
            "its tables are not described"
        )
    findings = ViolationCollector(stop_after)
    findings.note("description", len(RUN) + len(kind.info), _description_faults(result.info, kind))
    if not findings.report().ok:
        return findings.report()
    tables = kind.tables_of(result.info)
    _check_columns(result, tables, findings)
    if not findings.report().ok:
        return findings.report()
    run = Recorded(result, workload)
    rules = [rule for rule in (*standard_rules(tables), *kind.rules) if workload is not None or not rule.needs_workload]
    while rules:
        count = next((number for number, rule in enumerate(rules, 1) if rule.vital), len(rules))
        together, rules = rules[:count], rules[count:]
        _perform(together, run, findings, stop_after)
        if together[-1].name in findings.report().counts and together[-1].vital:
            break
    return findings.report()


def rules_of(problem: str) -> dict[str, str]:
    """Return the rules of a problem, by name: sentences in the order of checking."""
    kind = kind_of(problem)
    rules = {
        "description": "the description of the run is complete and makes sense",
        "columns": "every column exists, with its type, finite, and without nulls unless they are allowed",
    }
    for rule in (*standard_rules(kind.tables), *kind.rules):
        if rule.checks:
            rules.setdefault(rule.name, rule.sentence)
    return rules


def standard_rules(tables: Sequence[Table]) -> tuple[Rule, ...]:
    """Return the rules that follow from the descriptions of tables.

    Parameters
    ----------
    tables : sequence of Table
        Tables bound to a run.

    Returns
    -------
    tuple of Rule
        Rules ``arrival_numbers``, ``values``, ``status_fields`` and ``derived_times``.
    """
    return _rules_of_columns(tuple((table.name, table.columns, table.status) for table in tables))


@lru_cache(maxsize=32)  # building the expressions takes longer than evaluating them on a small run
def _rules_of_columns(tables: tuple[tuple[str, tuple[Column, ...], str], ...]) -> tuple[Rule, ...]:
    """Return the rules that follow from the columns of tables, given with their names and columns of status."""
    values: list[Check] = []
    fields: list[Check] = []
    derived: list[Check] = []
    for table, columns, status in tables:
        names = {column.name for column in columns}
        key = next((name for name in ("job_id", "slot") if name in names), None)
        row = f"{key.removesuffix('_id')} {{{key}}}" if key else f"table {table}"
        subject = row + (f" is {{{status}}}: " if status in names else ": ")
        for column in columns:
            name, place = column.name, pl.col(column.name)
            if column.least is not None:
                message = f"{row}: {name}: got {{{name}}}, expected a value >= {column.least:g}"
                values.append(Check(table, place < column.least, message, by_row=True))
            if column.given:
                given = pl.col(status).cast(pl.String).is_in(column.given)
                fields.append(Check(table, given == place.is_null(), f"{subject}{name} is {{{name}}}", by_row=True))
            if column.formula:
                checked = derived if column.dtype == "float" else fields
                text = partial(_message_of_formula, columns, column, subject)
                checked.append(Check(table, _underived(column), text, by_row=True))
            if column.formula and not column.given and column.dtype == "float":
                unknown = place.is_null() != pl.sql_expr(column.formula).is_null()
                fields.append(Check(table, unknown, f"{subject}{name} is {{{name}}}", by_row=True))
    numbered = any(
        table == "jobs" and any(column.name == "arrival_number" for column in columns) for table, columns, _ in tables
    )
    message = "job {job_id}: arrival_number is {arrival_number}, which is used twice or is not below the number of jobs"
    return (
        Rule("arrival_numbers", "the jobs are numbered", (Check("jobs", _misnumbered, message),) * numbered),
        Rule("values", "no number is below its smallest possible value", tuple(values)),
        Rule("status_fields", "a row has the values that belong to its status, and no others", tuple(fields)),
        Rule("derived_times", "columns that follow from others agree with them", tuple(derived)),
    )


def _misnumbered(run: Recorded) -> pl.DataFrame:
    numbers = run.column("jobs", "arrival_number")
    most = (
        numbers.max() if "is_cut" in run.info else len(numbers) - 1
    )  # of a cut run, jobs that had not ended are missing
    repeated = duplicated(numbers)
    if repeated.is_empty() and not (numbers > most).any():
        return pl.DataFrame()
    return run.where("jobs", (pl.col("arrival_number") > most) | pl.col("arrival_number").is_in(repeated.implode()))


def duplicated(values: pl.Series) -> pl.Series:
    """Return the values that occur more than once.

    Parameters
    ----------
    values : polars.Series
        Values without nulls.

    Returns
    -------
    polars.Series
        Duplicated values, ascending.
    """
    ordered = values.sort()  # needs a fraction of the memory of a hash table
    again = ordered[1:] == ordered[:-1]
    return ordered[1:].filter(again).unique(maintain_order=True) if again.any() else ordered.clear()


def _underived(column: Column) -> pl.Expr:
    """Return the expression that is true where a column does not agree with its formula."""
    expected, value = pl.sql_expr(column.formula), pl.col(column.name)
    if column.dtype != "float":
        return value.ne_missing(expected)
    # A quotient has its own rounding error, a sum or difference those of its terms.
    terms = [] if "/" in column.formula else [pl.col(name) for name in expected.meta.root_names()]
    return (value - expected).abs() > rounding(expected, *terms)


def _message_of_formula(
    columns: Sequence[Column], column: Column, subject: str, run: Recorded, row: Mapping[str, Any]
) -> str:
    """Return the message for a row in which a column does not agree with its formula."""
    terms = {one.name: pl.Series([row[one.name]], dtype=one.polars_type(), strict=False) for one in columns}
    expected = pl.DataFrame(terms).select(pl.sql_expr(column.formula)).item()
    said = f"{column.name} is {row[column.name]}, {column.formula} gives {expected}"
    return subject.format(**row) + said


def rounding(*terms: pl.Expr) -> pl.Expr:
    """Return the tolerance of a sum or difference of times: four units in the last place of the largest term.

    Parameters
    ----------
    *terms : polars.Expr
        Terms of the sum or difference.

    Returns
    -------
    polars.Expr
        Tolerance.
    """
    largest = pl.max_horizontal(*(term.abs() for term in terms)).cast(pl.Float64)
    return largest.map_batches(lambda values: pl.Series(4.0 * np.spacing(values.to_numpy())), pl.Float64)


def single_row(is_wrong: bool, **values: Any) -> pl.DataFrame:
    """Return a frame of one row if a rule is violated, otherwise of none; for rules that do not concern rows.

    Parameters
    ----------
    is_wrong : bool
        Whether the rule is violated.
    **values
        Values for the message.

    Returns
    -------
    polars.DataFrame
        Frame for a `Check`.
    """
    return pl.DataFrame({"row": [0], **{name: [value] for name, value in values.items()}}).head(int(is_wrong))


class Bounds(NamedTuple):
    """Value of a slot column computed from other tables, with its lower and upper bound."""

    found: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def check_totals(
    expected: Callable[[Recorded], Mapping[str, Bounds]], *columns: str
) -> Callable[[Recorded], pl.DataFrame]:
    """Return a function that finds slots in which a column disagrees with the other tables.

    Parameters
    ----------
    expected : callable
        Returns the bounds of columns by name; called once per run.
    *columns : str
        Columns to check; a name that ends with ``_`` stands for all columns with this prefix.

    Returns
    -------
    callable
        Function for a `Check`: rows have ``slot``, ``name``, and the strings ``said``, ``found``, ``low``, ``high``.
    """

    def _wrong(run: Recorded) -> pl.DataFrame:
        slots, rows = run["slots"], []
        for name, (found, low, high) in run.once(expected).items():
            if name in columns or any(column[-1] == "_" and name.startswith(column) for column in columns):
                said = slots[name].to_numpy()
                there = np.flatnonzero((said > high) | (said < low))
                texts = {"said": said, "found": found, "low": low, "high": high}
                stated = {key: pl.Series(values[there]).cast(pl.String) for key, values in texts.items()}
                which = {"slot": slots["slot"].gather(there), "name": pl.repeat(name, len(there), eager=True)}
                rows.append(pl.DataFrame(which | stated))
        return pl.concat(rows)

    return _wrong


def sums_at(slots: NDArray[np.int64], num_slots: int, weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
    """Return the sum of weights per slot; entries outside all slots are ignored.

    Parameters
    ----------
    slots : array of int, shape (n,)
        Slot of each entry.
    num_slots : int
        Number of slots.
    weights : array of float, shape (n,) or (n, k), optional
        Weight of each entry; None means 1.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        Sums per slot.
    """
    there = (slots >= 0) & (slots < num_slots)
    at = slots[there]
    if weights is None:
        return np.bincount(at, minlength=num_slots)
    if weights.ndim == 1:
        return np.bincount(at, weights[there], minlength=num_slots).astype(np.float64)  # integers for no entries
    return np.column_stack([sums_at(slots, num_slots, column) for column in weights.T])


def sums_from(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    num_slots: int,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[Any]:
    """Return the sum of weights per slot for entries that last from one slot up to another.

    Parameters
    ----------
    begin, end : array of int, shape (n,)
        First slot of each entry, and first slot after its end.
    num_slots : int
        Number of slots.
    weights : array of float, shape (n,) or (n, k), optional
        Weight of each entry; None means 1.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        Sums per slot.
    """
    lasts = begin != end  # empty entries would only add rounding errors
    begin, end = np.maximum(begin[lasts], 0), np.maximum(end[lasts], 0)
    weights = None if weights is None else weights[lasts]
    sums: NDArray[Any] = np.cumsum(sums_at(begin, num_slots, weights) - sums_at(end, num_slots, weights), axis=0)
    return sums


def horizon_rule(table: str, columns: Iterable[str], unit: str = "") -> Rule:
    """Return the rule that nothing happens after the end of a run.

    Parameters
    ----------
    table : str
        Name of the job table.
    columns : iterable of str
        Columns of the table that hold times.
    unit : str
        Unit that follows a time in messages.

    Returns
    -------
    Rule
        Rule ``horizon``.
    """
    checks = (
        Check(
            table,
            lambda run, column=column: pl.col(column) > run.end_time,  # type: ignore[misc]
            f"job {{job_id}}: {column} {{{column}}}{unit} is after the end of the run at {{run.end_time}}{unit}",
            by_row=True,
        )
        for column in columns
    )
    return Rule("horizon", "nothing happens after the end of the run", tuple(checks))


def unique_ids_rule(gone: Callable[[Recorded], pl.Expr]) -> Rule:
    """Return the rule that at most one of the jobs with the same identifier is in the system at any time.

    Parameters
    ----------
    gone : callable
        Returns an expression for the time at which each job leaves the system; infinite if it never does.

    Returns
    -------
    Rule
        Rule ``unique_ids``.
    """

    def _wrong(run: Recorded) -> pl.DataFrame:
        repeated = duplicated(run.column("jobs", "job_id"))
        if repeated.is_empty():
            return pl.DataFrame()
        jobs = run.where("jobs", pl.col("job_id").is_in(repeated.implode()))
        submission = pl.col("submission_time")
        pairs = (
            jobs.with_columns(gone=gone(run))
            .sort("job_id", "submission_time", maintain_order=True)
            .with_columns(before=submission.shift().over("job_id"), gone=pl.col("gone").shift().over("job_id"))
        )
        return pairs.filter((submission == pl.col("before")) | (pl.col("gone") > submission))

    message = (
        "job {job_id} is submitted at {submission_time} s while another job of this id, submitted at {before} s, is "
        "still in the system"
    )
    return Rule(
        "unique_ids",
        "at most one of the jobs with the same id is in the system at any time",
        (Check("jobs", _wrong, message),),
    )


def _frame_of(rows: Iterable[Sequence[Any]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema, orient="row", strict=False)


def _differences(names: Sequence[str]) -> pl.Expr:
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_recorded")) for name in names)


def _equal(given: pl.DataFrame, recorded: pl.DataFrame) -> bool:
    """Return whether two frames with the same columns have the same rows in the same order."""
    if given.equals(recorded):
        return True
    beside = recorded.rename(lambda name: f"{name}_recorded")
    return len(given) == len(recorded) and not given.hstack(beside).select(_differences(given.columns).any()).item()


def _paired(given: pl.DataFrame, recorded: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Join given and recorded jobs, matched by identifier, and for equal identifiers by order of submission."""
    nth = pl.int_range(pl.len()).over("job_id").alias("nth")
    said = (
        pl.concat_str([pl.format(f"{name} {{}}", pl.col(name)) for name in names[1:]], separator=", ").alias(text)
        for text in ("submitted", "recorded")
    )
    given = given.sort("submission_time", maintain_order=True).with_columns(nth)
    pairs = given.with_columns(next(said)).join(
        recorded.with_columns(nth).with_columns(next(said)),
        on=("job_id", "nth"),
        how="full",
        coalesce=True,
        suffix="_recorded",
        maintain_order="left_right",
    )
    return pairs.with_columns(other=_differences(names[1:]))


def conservation_rule(
    columns: Sequence[str] | Callable[[Recorded], Sequence[str]],
    fields: Callable[[Any], Sequence[Any]] = tuple,
    rows: Callable[[Recorded], Iterable[Sequence[Any]]] | None = None,
) -> Rule:
    """Return the rule that every submitted job is recorded once and unchanged, and no other job is recorded.

    Parameters
    ----------
    columns : sequence of str, or callable
        Columns of the job table that the workload determines, the identifier and ``submission_time`` first; or a
        function that returns them for a run.
    fields : callable
        Returns these values of a job of the workload.
    rows : callable, optional
        Returns these values of all jobs, in order of arrival, for a run that changes its workload.

    Returns
    -------
    Rule
        Rule ``conservation``. A run that was stopped need not contain jobs submitted at its end or later.
    """

    def compared(run: Recorded) -> pl.DataFrame:
        """Join the jobs of the workload with those of the table, by identifier and order of submission."""
        names = list(columns(run) if callable(columns) else columns)
        given_rows = map(fields, run.workload or ()) if rows is None else rows(run)
        time = names.index("submission_time")
        due = iter(given_rows) if run.drained else takewhile(lambda row: not row[time] > run.end_time, given_rows)
        order, agreed, given = ("submission_time", "arrival_number"), 0, pl.DataFrame()
        for recorded in run.portions("jobs", names, by=order):
            given = _frame_of(islice(due, len(recorded)), recorded.schema)
            if not _equal(given, recorded):
                break
            agreed += len(recorded)
        else:  # agreeing jobs in the same order need no message, unless the workload goes on
            given = _frame_of(islice(due, 1), recorded.schema)
            if given.is_empty():
                return pl.DataFrame()
        rest = _frame_of(due, recorded.schema)
        recorded = pl.concat(run.portions("jobs", names, by=order))
        return _paired(pl.concat([recorded.head(agreed), given, rest]), recorded, names)

    def found(run: Recorded, wrong: pl.Expr) -> pl.DataFrame:
        """Return the pairs for which an expression holds."""
        pairs = run.once(compared)
        return pairs if pairs.is_empty() else pairs.filter(wrong)

    def _missing(run: Recorded) -> pl.DataFrame:
        due = pl.lit(True) if run.drained else pl.col("submission_time") < run.end_time
        return found(run, pl.col("recorded").is_null() & due)

    def _invented(run: Recorded) -> pl.DataFrame:
        return found(run, pl.col("submitted").is_null())

    def _changed(run: Recorded) -> pl.DataFrame:
        both = pl.col("recorded").is_not_null() & pl.col("submitted").is_not_null()
        return found(run, both & pl.col("other"))

    return Rule(
        "conservation",
        "every submitted job is recorded once and unchanged, and no other job is recorded (needs the workload)",
        (
            Check("jobs", _missing, "job {job_id} was submitted but is not recorded: {submitted}"),
            Check("jobs", _invented, "job {job_id} is recorded but was not submitted: {recorded}"),
            Check("jobs", _changed, "job {job_id} was submitted as {submitted} and is recorded as {recorded}"),
        ),
        needs_workload=True,
    )


def _description_faults(info: Mapping[str, Any], kind: ProblemDescriptor) -> list[str]:
    faults = [text for column in (*RUN, *kind.info) if (text := fault_of(column, info))]
    if not faults and info["until"] is not None and info["end_time"] > info["until"]:
        faults = [f"end_time: got {info['end_time']!r}, expected a time between 0 and until ({info['until']!r})"]
    return faults or (kind.info_faults(info) if kind.info_faults is not None else [])


def _check_columns(result: Result, tables: Sequence[Table], findings: ViolationCollector) -> None:
    longest, faults = 0, []
    for table in tables:
        rows, is_faulty = 0, False
        try:
            result.source(table.name)
        except RecordError as error:
            if table.name in result.table_names:  # it is there, but cannot be read
                raise
            faults.append(str(error))
            continue
        for portion in result.portions(table.name, in_order=False):
            rows += len(portion)
            is_faulty = is_faulty or any(table.faults(portion))
        if is_faulty:
            faults += table.faults(result.table(table.name))  # whole tables, for row numbers
        longest = max(longest, rows)
    findings.note("columns", longest, faults)


class _Found:
    """Rows that a check finds: their number, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[pl.DataFrame] = []

    def add(self, wrong: pl.DataFrame, stop_after: int) -> None:
        """Add the violating rows of a portion."""
        if self.count < stop_after and len(wrong):
            self._first.append(wrong.head(stop_after - self.count))
        self.count += len(wrong)

    def first(self) -> pl.DataFrame:
        """Return the rows to describe."""
        return pl.concat(self._first) if self._first else pl.DataFrame()


def _perform(rules: Sequence[Rule], run: Recorded, findings: ViolationCollector, stop_after: int) -> None:
    """Check rules in order; all checks of single rows read each table together."""
    due = [[check for check in rule.checks if check.when is None or check.when(run)] for rule in rules]
    found: dict[int, _Found] = defaultdict(_Found)  # by the id of a check, since expressions cannot be compared
    heights: dict[Any, int] = {}  # by table
    by_row = [check for checks in due for check in checks if check.by_row]
    for table in dict.fromkeys(check.of for check in by_row):
        checks = [check for check in by_row if check.of == table]
        _perform_by_row(str(table), checks, run, found, stop_after)
    for rule, checks in zip(rules, due, strict=True):
        others = (check for check in checks if not check.by_row and not _is_idle(check, run))
        for _, group in groupby(others, key=lambda check: check.of):
            together = list(group)
            for check, wrong in zip(together, _wrong(together, run), strict=True):
                found[id(check)].add(wrong, stop_after)
        for check in checks:
            if check.of not in heights:
                heights[check.of] = run.height(check.of) if isinstance(check.of, str) else len(run.once(check.of))
            outcome = found[id(check)]
            numbers = np.arange(outcome.count)
            findings.check(rule.name, heights[check.of], numbers, partial(_message, check, outcome, run))


def _is_idle(check: Check, run: Recorded) -> bool:
    """Return whether a check has no rows to find violations in."""
    return check.of_rows and isinstance(check.of, str) and run.height(check.of) == 0


def _perform_by_row(
    table: str, checks: Sequence[Check], run: Recorded, found: Mapping[int, _Found], stop_after: int
) -> None:
    """Check portions in any order, which is faster, and again in order if there are violations to describe."""
    if run.height(table) == 0:
        return
    portions = (run.only(table, rows) for rows in run.portions(table, in_order=False))
    if any(map(len, chain.from_iterable(_wrong(checks, portion) for portion in portions))):
        for rows in run.portions(table):
            for check, wrong in zip(checks, _wrong(checks, run.only(table, rows)), strict=True):
                found[id(check)].add(wrong, stop_after)


def _wrong(checks: Sequence[Check], run: Recorded) -> list[pl.DataFrame]:
    """Return the rows that each check finds; a joint expression first tests whether any check finds some."""
    wrong = [check.wrong(run) if callable(check.wrong) else check.wrong for check in checks]
    expressions = {str(place): one.any() for place, one in enumerate(wrong) if isinstance(one, pl.Expr)}
    if not expressions:
        return [one for one in wrong if isinstance(one, pl.DataFrame)]
    rows = checks[0].rows(run)
    broken = rows.select(**expressions).row(0, named=True)
    return [
        one if isinstance(one, pl.DataFrame) else rows.filter(one) if broken[str(place)] else rows.clear()
        for place, one in enumerate(wrong)
    ]


def _message(check: Check, found: _Found, run: Recorded, row: int) -> str:
    values = found.first().row(row, named=True)
    return check.message(run, values) if callable(check.message) else check.message.format(**values, run=run)
