"""Independent check whether the records of a run are possible at all.

A `Rule` has a name, a sentence, and checks; a `Check` says which rows of a table are wrong, as an expression of polars
or as a function of the run, and a message into which the values of such a row are put. What the description of the
tables already says (types, nulls, least values, which columns a status has, what follows from what) becomes rules by
itself, see `standard_rules`; each problem has its own in ``desim.problems.NAME.rules``. Rules share that description
with the dynamics, and nothing else, so that an error in the simulator cannot hide itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from desim.exceptions import DesimError, InvalidConfiguration, RecordError
from desim.problem import kind_of
from desim.result import RUN_STATUSES, Result
from desim.tables import Column, Table, fault_of

if TYPE_CHECKING:
    from desim.problem import Kind

__all__ = [
    "Bounds",
    "Check",
    "Findings",
    "Recorded",
    "Rule",
    "ValidationReport",
    "Violation",
    "conservation_rule",
    "horizon_rule",
    "misstated",
    "rounding",
    "rules_of",
    "standard_rules",
    "sums_at",
    "sums_from",
    "told",
    "unique_ids_rule",
    "validate",
]

Found = TypeVar("Found")


class Violation(NamedTuple):
    """One violation of a rule.

    Attributes
    ----------
    rule : str
        Name of the rule.
    message : str
        Names the job, time or core, and the values that contradict each other.
    """

    rule: str
    message: str

    def __str__(self) -> str:
        """Join rule and message."""
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True)
class ValidationReport:
    """The outcome of a validation.

    Attributes
    ----------
    violations : tuple of Violation
        By rule, in the order of checking; at most ``stop_after`` of each rule.
    counts : mapping of str to int
        All violations of each rule that was broken.
    checks : mapping of str to int
        The rules that were checked, and on how many rows (of the largest table concerned).
    """

    violations: tuple[Violation, ...]
    counts: Mapping[str, int]
    checks: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.counts

    def raise_if_invalid(self) -> None:
        """Raise an error that tells all the violations, if there are any.

        Raises
        ------
        DesimError
            If a rule was broken.
        """
        if not self.ok:
            raise DesimError(str(self))

    def __str__(self) -> str:
        """Write a paragraph: one line if all is well, else the violations by rule."""
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


class Findings:
    """Collects what is found while the rules are checked one by one.

    Parameters
    ----------
    stop_after : int
        How many violations of a rule are described; all are counted.

    Raises
    ------
    InvalidConfiguration
        If ``stop_after`` is below 1.
    """

    def __init__(self, stop_after: int) -> None:
        if stop_after < 1:
            raise InvalidConfiguration(f"stop_after is {stop_after!r}, want at least 1")
        self._stop_after = stop_after
        self._messages: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._checks: dict[str, int] = {}

    def check(
        self, rule: str, rows: int, wrong: NDArray[np.bool_] | NDArray[np.int64], message: Callable[[int], str]
    ) -> None:
        """Note the outcome of one check; a rule may consist of several.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            How many rows were looked at.
        wrong : array of bool or of int
            Which of them break the rule, as a mask or by index.
        message : callable
            Describes the violation of a given index.
        """
        self._checks[rule] = max(rows, self._checks.get(rule, 0))
        indices = np.flatnonzero(wrong) if wrong.dtype == np.bool_ else wrong
        if len(indices):
            self._counts[rule] = self._counts.get(rule, 0) + len(indices)
            messages = self._messages.setdefault(rule, [])
            room = max(self._stop_after - len(messages), 0)
            messages += [message(int(index)) for index in indices[:room]]

    def note(self, rule: str, rows: int, messages: list[str]) -> None:
        """Note violations that are described already.

        Parameters
        ----------
        rule : str
            Name of the rule.
        rows : int
            How many rows were looked at.
        messages : list of str
            The violations; none says that all is well.
        """
        self.check(rule, rows, np.arange(len(messages)), messages.__getitem__)

    def report(self) -> ValidationReport:
        """Return what was found so far.

        Returns
        -------
        ValidationReport
            The violations, by rule in the order of checking, and the checks.
        """
        violations = [Violation(rule, text) for rule, messages in self._messages.items() for text in messages]
        return ValidationReport(tuple(violations), dict(self._counts), dict(self._checks))


RUN = (
    Column("status", "text", "how the run ended", values=RUN_STATUSES),
    Column("end_time", "float", "when the run ended", least=0),
    Column("until", "float", "when it was to end at the latest", null="for a run without a limit"),
)
"""What the description of every run says of its end."""


class Recorded:
    """A run as rules see it.

    Parameters
    ----------
    info : mapping
        Its description.
    tables : mapping of str to polars.DataFrame
        Its tables, whose columns have been checked.
    workload : iterable or None
        What was simulated.

    Attributes
    ----------
    end_time, until : float
        When the run ended, and when it was to end at the latest; the latter may be infinite.
    """

    def __init__(
        self, info: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], workload: Iterable[Any] | None
    ) -> None:
        self.info = info
        self.tables = tables
        self.workload = workload
        self.end_time = float(info["end_time"])
        planned = (info["until"], info.get("num_slots"))
        self.until = min((float(end) for end in planned if end is not None), default=math.inf)
        self._views: dict[Callable[[Any], Any], Any] = {}

    def __getitem__(self, table: str) -> pl.DataFrame:
        """Return a table."""
        return self.tables[table]

    @property
    def drained(self) -> bool:
        """Whether the run went on until nothing was left to happen."""
        return self.info["status"] == "complete" and self.end_time < self.until

    def once(self, view: Callable[[Recorded], Found]) -> Found:
        """Return what a function makes of the run, which several checks need; it is called once."""
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
        The table whose rows are looked at, or a function of the run that returns it with what stands beside it
        elsewhere; it is called once a run.
    wrong : polars.Expr or callable
        Which rows break the rule (null counts as no), or a function of the run that returns such an expression, or a
        frame with a row for each violation.
    message : str or callable
        What to say of a violation: a format of the columns of its row, and of ``run``; or a function of the run and
        the row, for what takes long to find out.
    when : callable or None
        Tells of a run whether there is anything to check.
    """

    of: str | Callable[[Recorded], pl.DataFrame]
    wrong: Wrong
    message: str | Callable[[Recorded, dict[str, Any]], str]
    when: Callable[[Recorded], bool] | None = None

    def rows(self, run: Recorded) -> pl.DataFrame:
        """Return the rows that are looked at."""
        return run[self.of] if isinstance(self.of, str) else run.once(self.of)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    name : str
        Short, as reports count violations by it.
    sentence : str
        What holds of every valid run.
    checks : tuple of Check
        All of which must find nothing.
    needs_workload : bool
        Whether it can be checked only against what was simulated.
    vital : bool
        Whether the rules behind it make no sense where it is broken: they are then not checked.
    """

    name: str
    sentence: str
    checks: tuple[Check, ...] = ()
    needs_workload: bool = False
    vital: bool = False


def validate(result: Result, workload: Iterable[Any] | None = None, *, stop_after: int = 20) -> ValidationReport:
    """Check the records of a run against the rules of its problem.

    Parameters
    ----------
    result : Result
        The run, whatever its status.
    workload : iterable, optional
        What was simulated (its jobs, but for the multi-server cluster the rows of its arrivals), to check that nothing
        was lost, invented or changed. It is read once, and no further than the run has come.
    stop_after : int
        How many violations of each rule are described; all are counted.

    Returns
    -------
    ValidationReport
        Violations and checks; its ``ok`` is True for a valid run. A broken ``description`` or ``columns`` ends the
        check, and so does a vital rule.

    Raises
    ------
    InvalidConfiguration
        If the result names no problem that has rules, or ``stop_after`` is below 1.
    """
    kind = kind_of(result)
    if not (kind.rules or kind.tables):
        raise InvalidConfiguration(
            f"no rules for problem {result.info.get('problem')!r} (run status {result.info.get('status')!r}): "
            "it describes no tables"
        )
    findings = Findings(stop_after)
    findings.note("description", len(RUN) + len(kind.info), _description_faults(result.info, kind))
    if not findings.report().ok:
        return findings.report()
    tables = [table.bound(result.info) for table in kind.tables]
    frames = _frames(result, tables, findings)
    if not findings.report().ok:
        return findings.report()
    run = Recorded(result.info, frames, workload)
    for rule in (*standard_rules(tables), *kind.rules):
        if workload is not None or not rule.needs_workload:
            _perform(rule, run, findings)
        if rule.vital and rule.name in findings.report().counts:
            break
    return findings.report()


def rules_of(problem: str) -> dict[str, str]:
    """Return the rules of a problem by its name: name and sentence, in the order of checking."""
    kind = kind_of(problem)
    rules = {
        "description": "the description of the run is complete and makes sense",
        "columns": "every column is there, with its type, without nulls where there may be none, and finite",
    }
    for rule in (*standard_rules(kind.tables), *kind.rules):
        if rule.checks:
            rules.setdefault(rule.name, rule.sentence)
    return rules


def standard_rules(tables: Sequence[Table]) -> tuple[Rule, ...]:
    """Return the rules that follow from the description of tables.

    Parameters
    ----------
    tables : sequence of Table
        Bound to a run.

    Returns
    -------
    tuple of Rule
        ``arrival_numbers``, ``values``, ``status_fields`` and ``derived_times``.
    """
    values: list[Check] = []
    fields: list[Check] = []
    derived: list[Check] = []
    for table in tables:
        key = next((name for name in ("job_id", "slot") if name in table.names), None)
        row = f"{key.removesuffix('_id')} {{{key}}}" if key else f"table {table.name}"
        subject = row + (f" is {{{table.status}}}: " if table.status in table.names else ": ")
        for column in table.columns:
            name, place = column.name, pl.col(column.name)
            if column.least is not None:
                message = f"{row}: {name} is {{{name}}}, want at least {column.least:g}"
                values.append(Check(table.name, place < column.least, message))
            if column.given:
                given = pl.col(table.status).cast(pl.String).is_in(column.given)
                fields.append(Check(table.name, given == place.is_null(), f"{subject}{name} is {{{name}}}"))
            if column.formula:
                checked = derived if column.dtype == "float" else fields
                checked.append(
                    Check(table.name, partial(_underived, table.name, column), f"{subject}{_derived(column)}")
                )
            if column.formula and not column.given and column.dtype == "float":
                wrong = place.is_null() != pl.sql_expr(column.formula).is_null()
                fields.append(Check(table.name, wrong, f"{subject}{name} is {{{name}}}"))
    numbered = [table.name for table in tables if table.name == "jobs" and "arrival_number" in table.names]
    number = pl.col("arrival_number")
    misnumbered = (number >= pl.len()) | number.is_duplicated()
    message = "job {job_id}: arrival_number is {arrival_number}, which another job has or no job of so many"
    return (
        Rule("arrival_numbers", "the jobs are numbered", tuple(Check(name, misnumbered, message) for name in numbered)),
        Rule("values", "no number is below what is possible", tuple(values)),
        Rule("status_fields", "a row has the values that belong to its status, and no others", tuple(fields)),
        Rule("derived_times", "columns that follow from others agree with them", tuple(derived)),
    )


def _derived(column: Column) -> str:
    return f"{column.name} is {{{column.name}}}, {column.formula} gives {{expected}}"


def _underived(table: str, column: Column, run: Recorded) -> pl.DataFrame:
    """Return the rows in which a column does not follow from the others."""
    expression = pl.sql_expr(column.formula)
    frame, value, expected = run[table].with_columns(expected=expression), pl.col(column.name), pl.col("expected")
    if column.dtype != "float":
        return frame.filter(value.ne_missing(expected))
    # A quotient is rounded by itself, a sum or difference as its terms are.
    terms = [] if "/" in column.formula else [pl.col(name) for name in expression.meta.root_names()]
    return frame.filter((value - expected).abs() > rounding(expected, *terms))


def rounding(*terms: pl.Expr) -> pl.Expr:
    """Return how far a sum or difference of times may be off: four units in the last place of the largest.

    Parameters
    ----------
    *terms : polars.Expr
        Its terms.

    Returns
    -------
    polars.Expr
        The tolerance.
    """
    largest = pl.max_horizontal(*(term.abs() for term in terms)).cast(pl.Float64)
    return largest.map_batches(lambda values: pl.Series(4.0 * np.spacing(values.to_numpy())), pl.Float64)


def told(is_wrong: bool, **values: Any) -> pl.DataFrame:
    """Return a frame of one row with some values, or of none if nothing is wrong: for what is no matter of rows.

    Parameters
    ----------
    is_wrong : bool
        Whether a rule is broken.
    **values
        What its message tells.

    Returns
    -------
    polars.DataFrame
        For a `Check`.
    """
    return pl.DataFrame({"row": [0], **{name: [value] for name, value in values.items()}}).head(int(is_wrong))


class Bounds(NamedTuple):
    """What other tables make of a column of the slots, and between what it may lie."""

    found: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def misstated(
    expected: Callable[[Recorded], Mapping[str, Bounds]], *columns: str
) -> Callable[[Recorded], pl.DataFrame]:
    """Return a function that looks for slots in which a column is not what other tables make of it.

    Parameters
    ----------
    expected : callable
        Returns the bounds of columns by name; it is called once a run.
    *columns : str
        Those that are looked at; a name that ends with ``_`` means all that begin so.

    Returns
    -------
    callable
        For a `Check`: its rows have ``slot``, ``name``, and as texts what is ``said``, ``found``, ``low`` and ``high``.
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
    """Add up the weights of what happens in each slot; what is not in any slot is left out.

    Parameters
    ----------
    slots : array of int, shape (n,)
        When it happens.
    num_slots : int
        How many slots there are.
    weights : array of float, shape (n,) or (n, k), optional
        1 if None.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        The sums.
    """
    there = (slots >= 0) & (slots < num_slots)
    at = slots[there]
    if weights is None:
        return np.bincount(at, minlength=num_slots)
    if weights.ndim == 1:
        return np.bincount(at, weights[there], minlength=num_slots).astype(np.float64)  # of nothing it counts
    return np.column_stack([sums_at(slots, num_slots, column) for column in weights.T])


def sums_from(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    num_slots: int,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[Any]:
    """Add up the weights of what lasts from one slot up to another.

    Parameters
    ----------
    begin, end : array of int, shape (n,)
        The first slot, and the first one after the last.
    num_slots : int
        How many slots there are.
    weights : array of float, shape (n,) or (n, k), optional
        1 if None.

    Returns
    -------
    array, shape (num_slots,) or (num_slots, k)
        The sums.
    """
    lasts = begin != end  # else it would only leave its rounding
    begin, end = np.maximum(begin[lasts], 0), np.maximum(end[lasts], 0)
    weights = None if weights is None else weights[lasts]
    sums: NDArray[Any] = np.cumsum(sums_at(begin, num_slots, weights) - sums_at(end, num_slots, weights), axis=0)
    return sums


def horizon_rule(table: str, columns: Iterable[str], unit: str = "") -> Rule:
    """Return the rule that nothing happens after the end of a run.

    Parameters
    ----------
    table : str
        The job table.
    columns : iterable of str
        Its columns with times.
    unit : str
        What follows a time in messages.

    Returns
    -------
    Rule
        ``horizon``.
    """
    checks = (
        Check(
            table,
            lambda run, column=column: pl.col(column) > run.end_time,  # type: ignore[misc]
            f"job {{job_id}}: {column} {{{column}}}{unit} lies after the end of the run at {{run.end_time}}{unit}",
        )
        for column in columns
    )
    return Rule("horizon", "nothing happens after the end of the run", tuple(checks))


def unique_ids_rule(gone: Callable[[Recorded], pl.Expr], admitted: pl.Expr | None = None) -> Rule:
    """Return the rule that of all jobs with the same identifier at most one is in the system at any time.

    Parameters
    ----------
    gone : callable
        Returns when each job has left the system; infinite if it has not.
    admitted : polars.Expr, optional
        The jobs that ever enter the system.

    Returns
    -------
    Rule
        ``unique_ids``.
    """

    def _wrong(run: Recorded) -> pl.DataFrame:
        jobs = run["jobs"] if admitted is None else run["jobs"].filter(admitted)
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
        "of all jobs with one id at most one is in the system at any time",
        (Check("jobs", _wrong, message),),
    )


def conservation_rule(
    columns: Sequence[str] | Callable[[Recorded], Sequence[str]],
    fields: Callable[[Any], Sequence[Any]] = tuple,
    rows: Callable[[Recorded], Iterable[Sequence[Any]]] | None = None,
) -> Rule:
    """Return the rule that every submitted job is recorded once, as it was submitted, and no other is.

    Parameters
    ----------
    columns : sequence of str, or callable
        Columns of the job table that the workload gives, the identifier and ``submission_time`` first; or what returns
        them for a run.
    fields : callable
        Returns these of a job of the workload.
    rows : callable, optional
        Returns these of all jobs, in order of arrival, for a run whose workload does not come as it is.

    Returns
    -------
    Rule
        ``conservation``. A run that was stopped need not have the jobs submitted at its end or later.
    """
    nth = pl.int_range(pl.len()).over("job_id").alias("nth")

    def compared(run: Recorded) -> pl.DataFrame:
        """Put the jobs of the workload beside those of the table: by identifier, those of one by submission."""
        names = list(columns(run) if callable(columns) else columns)
        recorded = run["jobs"].sort("submission_time", "arrival_number").select(*names, nth)
        given_rows = map(fields, run.workload or ()) if rows is None else rows(run)
        time = names.index("submission_time")
        known = list(given_rows if run.drained else takewhile(lambda row: not row[time] > run.end_time, given_rows))
        schema = {name: recorded.schema[name] for name in names}
        given = pl.DataFrame(known, schema, orient="row", strict=False)
        given = given.sort("submission_time", maintain_order=True).select(*names, nth)
        said = (
            pl.concat_str([pl.format(f"{name} {{}}", pl.col(name)) for name in names[1:]], separator=", ").alias(text)
            for text in ("submitted", "recorded")
        )
        pairs = given.with_columns(next(said)).join(
            recorded.with_columns(next(said)),
            on=("job_id", "nth"),
            how="full",
            coalesce=True,
            suffix="_recorded",
            maintain_order="left_right",
        )
        other = (pl.col(name).ne_missing(pl.col(f"{name}_recorded")) for name in names[1:])
        return pairs.with_columns(other=pl.any_horizontal(other))

    def _missing(run: Recorded) -> pl.DataFrame:
        due = pl.lit(True) if run.drained else pl.col("submission_time") < run.end_time
        return run.once(compared).filter(pl.col("recorded").is_null() & due)

    def _invented(run: Recorded) -> pl.DataFrame:
        return run.once(compared).filter(pl.col("submitted").is_null())

    def _changed(run: Recorded) -> pl.DataFrame:
        both = pl.col("recorded").is_not_null() & pl.col("submitted").is_not_null()
        return run.once(compared).filter(both & pl.col("other"))

    return Rule(
        "conservation",
        "every submitted job is recorded once, as it was submitted, and no other is (needs the workload)",
        (
            Check("jobs", _missing, "job {job_id} was submitted but is not recorded: {submitted}"),
            Check("jobs", _invented, "job {job_id} is recorded but was not submitted: {recorded}"),
            Check("jobs", _changed, "job {job_id} was submitted as {submitted} and is recorded as {recorded}"),
        ),
        needs_workload=True,
    )


def _description_faults(info: Mapping[str, Any], kind: Kind) -> list[str]:
    faults = [text for column in (*RUN, *kind.info) if (text := fault_of(column, info))]
    if not faults and info["until"] is not None and info["end_time"] > info["until"]:
        faults = [f"end_time is {info['end_time']!r}, want a time between 0 and until ({info['until']!r})"]
    return faults or (kind.info_faults(info) if kind.info_faults is not None else [])


def _frames(result: Result, tables: Sequence[Table], findings: Findings) -> dict[str, pl.DataFrame]:
    frames, faults = {}, []
    for table in tables:
        try:
            frames[table.name] = result.table(table.name)
        except RecordError as error:
            faults.append(str(error))
        else:
            faults += table.faults(frames[table.name])
    findings.note("columns", max(map(len, frames.values()), default=0), faults)
    return frames


def _perform(rule: Rule, run: Recorded, findings: Findings) -> None:
    """Perform the checks of a rule, those on the same rows together: few of many expressions find anything."""
    due = [check for check in rule.checks if check.when is None or check.when(run)]
    for _, together in groupby(due, key=lambda check: check.of):
        checks = list(together)
        rows = checks[0].rows(run)
        wrong = [check.wrong(run) if callable(check.wrong) else check.wrong for check in checks]
        expressions = {str(place): one.any() for place, one in enumerate(wrong) if isinstance(one, pl.Expr)}
        broken = rows.select(**expressions).row(0, named=True) if expressions else {}
        for place, (check, one) in enumerate(zip(checks, wrong, strict=True)):
            found = one if isinstance(one, pl.DataFrame) else rows.filter(one) if broken[str(place)] else rows.clear()
            message = partial(_message, check, found, run)
            findings.check(rule.name, len(rows), np.arange(len(found)), message)


def _message(check: Check, found: pl.DataFrame, run: Recorded, row: int) -> str:
    values = found.row(row, named=True)
    return check.message(run, values) if callable(check.message) else check.message.format(**values, run=run)
