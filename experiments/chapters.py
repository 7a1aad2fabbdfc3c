"""What a report says, whatever it is written in: headings, paragraphs, lists, tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from desim.experiments.account import Account
from desim.experiments.compare import short, with_interval
from desim.statistics import Estimate

if TYPE_CHECKING:
    from desim.experiments.families import Family

__all__ = ["Bullets", "Chapter", "Element", "Paragraph", "Picture", "Table", "chapters_of"]

MOST_FAILING = 8  # of one experiment at the beginning; all are in its own chapter


@dataclass(frozen=True)
class Paragraph:
    """Plain text.

    Attributes
    ----------
    text : str
        What it says.
    warn : bool
        Whether it needs attention.
    """

    text: str
    warn: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of plain texts."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    Attributes
    ----------
    title : str
        What it shows.
    heads : sequence of str
        Heads of the columns.
    rows : sequence of sequence of str
        Cells.
    words : sequence of int
        Columns that hold words; the others hold numbers.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = (0,)


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes
    ----------
    file : str
        Its path below the directory of the results.
    caption : str
        What it shows.
    """

    file: str
    caption: str


Element = Paragraph | Bullets | Table | Picture


@dataclass
class Chapter:
    """A part with a heading.

    Attributes
    ----------
    name : str
        A word that links lead to.
    title : str
        Its heading.
    elements : list of Element
        What it says.
    """

    name: str
    title: str
    elements: list[Element] = field(default_factory=list)


def chapters_of(family: Family, accounts: Sequence[Account]) -> list[Chapter]:
    """Return the whole report.

    Parameters
    ----------
    family : Family
        Whose experiments they are.
    accounts : sequence of Account
        What they have left; at least one.

    Returns
    -------
    list of Chapter
        What it comes to, the paper's figures beside ours, each experiment, and how it was run.
    """
    short_words = Chapter("summary", "In short", list(_summary(family, accounts)))
    worse = Chapter("worse", "Where ours is worse, and what does not hold", list(_worse(accounts)))
    chapters = [short_words, worse, *_beside(accounts)]
    chapters += [
        Chapter(account.name, f"{account.name}: {account.title}", list(_told(account))) for account in accounts
    ]
    return [*chapters, Chapter("settings", "Settings, code and machine", list(_settings(accounts)))]


def _blocks(accounts: Sequence[Account], kind: str) -> Iterator[tuple[Account, Mapping[str, Any]]]:
    return ((account, block) for account in accounts for block in account.blocks if block["kind"] == kind)


def _summary(family: Family, accounts: Sequence[Account]) -> Iterator[Element]:
    yield Paragraph(f"{family.title}. The paper: {family.source}")
    if any(account.is_reduced for account in accounts):
        yield Paragraph(
            "This is a trial in a smaller size: its figures cannot be compared with the paper's.", warn=True
        )
    checks = [check for _, block in _blocks(accounts, "checks") for check in block["checks"]]
    if checks:
        holding = sum(check["holds"] for check in checks)
        yield Paragraph(f"{holding} of {len(checks)} checks of what was to be shown hold.")
    rows = [row for _, block in _blocks(accounts, "beside") for row in block["rows"]]
    verdicts = [row["verdict"] for row in rows]
    if rows and "trial" not in verdicts:
        counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
        text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        yield Paragraph(f"Of {len(rows)} numbers that the paper states, ours are: {text}.")
    wall = sum(account.seconds for account in accounts)
    runs = [block for _, block in _blocks(accounts, "runs")]
    count = sum(block["performed"] + block["stored"] for block in runs)
    seconds = sum(block["seconds"] for block in runs)
    missing = [name for name in family.modules if name not in {account.name for account in accounts}]
    left_out = f" Not run: {', '.join(missing)}." if missing else ""
    yield Paragraph(
        f"{len(accounts)} experiments with {count:,} runs, which took {_duration(seconds)} one after another. The "
        f"wall time of the last call was {_duration(wall)}, in which runs that were stored before take no time."
        f"{left_out}"
    )
    yield Paragraph("Numbers behind ± are half the width of 95 % confidence intervals; differences are paired by seed.")


def _worse(accounts: Sequence[Account]) -> Iterator[Element]:
    for account in accounts:
        if account.error:
            yield Paragraph(f"{account.name} has failed: {account.error}", warn=True)
    numbers = [
        f"{account.name}: {row['what']}: the paper {short(row['paper'])}, ours {_ours(row)}"
        for account, block in _blocks(accounts, "beside")
        for row in block["rows"]
        if row["verdict"] == "worse"
    ]
    if numbers:
        yield Paragraph("Numbers of the paper that ours are worse than, beyond the interval:")
        yield Bullets(numbers)
    failing = False
    for account in accounts:
        checks = [check for _, block in _blocks([account], "checks") for check in block["checks"]]
        texts = [check["text"] for check in checks if not check["holds"]]
        if texts:
            failing = True
            first = "; the first of them, all are in its own section" if len(texts) > MOST_FAILING else ""
            yield Paragraph(f"Checks of {account.name} that do not hold, {len(texts)} of {len(checks)}{first}:")
            yield Bullets(texts[:MOST_FAILING])
    if not numbers and not failing and not any(account.error for account in accounts):
        yield Paragraph(
            "No number that the paper states, and no check. What the tables below say of agents is not counted here."
        )


def _beside(accounts: Sequence[Account]) -> Iterator[Chapter]:
    rows = [
        [account.name, row["what"], short(row["paper"]), _ours(row), row["verdict"]]
        for account, block in _blocks(accounts, "beside")
        for row in block["rows"]
    ]
    if rows:
        heads = ["experiment", "what", "the paper", "ours", "ours is"]
        title = "Numbers that the paper states, beside ours with 95 % intervals"
        yield Chapter("paper", "The paper's figures beside ours", [Table(title, heads, rows, (0, 1, 4))])


def _ours(row: Mapping[str, Any]) -> str:
    ours = row["ours"]
    mean, half_width = (math.nan if ours[name] is None else ours[name] for name in ("mean", "half_width"))
    return with_interval(Estimate(mean, half_width, ours["num_values"], ours["level"]))


def _told(account: Account) -> Iterator[Element]:
    """Yield what an experiment has printed and drawn, in its order."""
    yield Paragraph(f"Settings: {_settings_of(account)}.")
    if account.error:
        yield Paragraph(f"It has failed: {account.error}", warn=True)
    for block in account.blocks:
        match block["kind"]:
            case "text":
                yield Paragraph(block["text"])
            case "table":
                yield Table(block["title"], block["heads"], block["rows"], block["words"])
            case "runs":
                yield Paragraph(
                    f"{block['performed'] + block['stored']:,} runs, which took {_duration(block['seconds'])} one "
                    f"after another; {block['stored']:,} of them were stored before."
                )
            case "picture":
                yield Picture(f"{account.name}/{block['file']}", block["caption"])
            case "checks":
                rows = [[check["text"], "holds" if check["holds"] else "does not hold"] for check in block["checks"]]
                yield Table("What was to be shown", ["", ""], rows, (0, 1))


def _settings(accounts: Sequence[Account]) -> Iterator[Element]:
    rows = [
        [
            account.name,
            _settings_of(account),
            " ".join(filter(None, (account.code.get(name, "") for name in ("desim", "commit", "digest")))),
            _duration(account.seconds),
        ]
        for account in accounts
    ]
    heads = ["experiment", "settings", "version, commit and digest of the code", "wall time"]
    yield Table("How each experiment was run", heads, rows, (0, 1, 2))
    machines = dict.fromkeys(tuple(sorted(account.machine.items())) for account in accounts)
    for machine in machines:
        yield Paragraph(", ".join(f"{name} {value}" for name, value in machine))


def _settings_of(account: Account) -> str:
    """Return the settings in words: what is left as it is by being off or empty is left out."""
    words = []
    for name, value in account.options.items():
        if value is not None and value is not False:
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {shown}")
    return ", ".join(words)


def _duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s" if minutes else f"{left} s"
