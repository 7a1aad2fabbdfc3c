"""The same words for the same things, in pages, docstrings, comments and messages; British spelling, with -ize."""

from __future__ import annotations

import ast
import csv
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from documentation import EXAMPLES, PAGES, ROOT, SOURCES, read

#: What is not written, and what stands for it here.
VARIANTS = {
    "backfilling": r"(?<!deep )back[- ]fill\w*",
    "makespan": r"make[- ]span",
    "slowdown": r"slow-down|job slow down",
    "speedup": r"speed-up",
    "workload": r"work[- ]load",
    "turnaround time": r"turn-around",
    "run time": r"run-?time",
    "requested time": r"requested run ?time|user estimate",
    "slot, or time slot": r"time-?slot",
    "data frame": r"dataframe",
    "data set": r"dataset",
    "file name": r"filename",
    "time stamp": r"timestamp",
    "trade-off": r"trade ?off",
    "wall time": r"wall-?time",
    "online, offline": r"o[nf]f?-line",
    "preemption": r"pre-empt\w*",
    "hyper-parameter": r"hyper ?parameter",
    "-our": r"neighbor\w*|behavior\w*|favor\w*|honor\w*|labor|flavorful",
    "-lled, -lling": r"labeled|modeled|modeler|canceled|canceling|traveled|signaled",
    "grey": r"grays?",
    "licence, of which one has a License": r"a license|licenses",
    "-ize": r"(?:character|factor|final|general|initial|maxim|minim|normal|optim|organ|parallel|parametr|penal|prior"
    r"|priorit|random|real|recogn|serial|standard|summar|util|visual)is(?:e|es|ed|er|ing|ations?)",
    "-yse": r"(?:anal|paral)yz\w+",
}
#: In programs these are names of arguments and of matplotlib's.
ON_PAGES_ONLY = {"colour": r"colors?|colored", "-re": r"centers?|centered|meters|fibers?"}
#: Titles of papers and names of what others have made, as they are.
QUOTED = (
    '"Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"',
    '"Backfilling using system-generated predictions rather than user runtime estimates"',
    "AzurePublicDataset",
)
CODE = re.compile(r"``.*?``|:[\w:]+:`[^`]*`|`[^`\n]*`|https?:\S+|^ *\$ .*$", re.M | re.S)
LISTING = re.compile(r"^( *)\.\. code-block::[^\n]*\n(?:\1 +[^\n]*\n| *\n)+|^```.*?^```", re.M | re.S)

#: Names of parameters and attributes in docstrings: identifiers, not prose.
PARAMETER = re.compile(r"^ *[*\w, ]+ : ", re.M)

DIRECTIVE = re.compile(r"^ *\.\. [\w-]+::.*$|^ +:\w+:.*$|^ +\w+$", re.M)  # and names in lists of them

#: What is not to come back in docstrings, comments, messages and pages, by what stands for it.
NOT_AGAIN = {
    "Return whether": r"tell whether",
    "got X, expected Y (messages)": r"want",
    "recorded, known, given": r"told",
    "borrowed": r"lent|lends",
    "your, custom": r"of (?:one's|your|their|its) own",
    "no job, no agent, who": r"(?:some|no|any|every)body",
    "given number": r"so many",
    "preempt": r"(?:take|takes|taken|took|taking) off",
    "subpackage, project": r"wings?|the house",
}
#: The same at the beginning of a docstring, of the description of a parameter, and of a help text.
OPENINGS_NOT_AGAIN = {"a noun": r"Of\b", "Return whether": r"Tell whether\b"}
#: Markup that help texts print as it is.
MARKUP = re.compile(r":\w+:`|``|::(?!\w)")
#: A former name of one word may mean something else elsewhere, but for these; of several words, those may.
ONE_WORD = {"foresee", "Foresight", "Nearness", "Timetable", "Timetables"}
SEVERAL_WORDS = {"go_on", "one_of", "back-filling"}
#: Former names that readers of stored runs and model cards know, and where.
STILL_READ = {
    "kind.py": {"kill_at_request"},
    "provenance.py": {"made.json"},
    "checkpoint.py": {"actor_critic", "easy-molding", "own_code", "rank_up", "sjf-cores", "value_weight"},
}


def prose_of(path: Path) -> str:
    """Return what people read: pages without listings; comments, docstrings and messages of programs."""
    text = read(path)
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        parts = [token.string for token in tokens if token.type == tokenize.COMMENT]
        values = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        text = "\n\n".join(
            [
                *parts,
                *(PARAMETER.sub(" ", value) for value in values if isinstance(value, str) and " " in value.strip()),
            ]
        )
    else:
        text = DIRECTIVE.sub("", LISTING.sub("", text))
    plain = " ".join(CODE.sub(" ", text).split())
    for quoted in QUOTED:
        plain = plain.replace(quoted, "")
    return plain


def pattern_of(variants: dict[str, str]) -> re.Pattern[str]:
    """Return a pattern of words of their own, in which the number of a group is that of a variant."""
    groups = "|".join(f"({variant})" for variant in variants.values())
    return re.compile(rf"(?<![\w.\-/=\"])(?:{groups})(?![\w=/]|-\w|\.\w)", re.I)


def found_in(text: str, variants: dict[str, str]) -> list[tuple[str, str]]:
    """Return variants that a text has, each with the word of the project."""
    houses = list(variants)
    return [(match[0], houses[(match.lastindex or 1) - 1]) for match in pattern_of(variants).finditer(text)]


def test_words_are_those_of_the_project() -> None:
    wrong = []
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *PAGES, *EXAMPLES, *SOURCES):
        variants = VARIANTS if path.suffix == ".py" else VARIANTS | ON_PAGES_ONLY
        wrong += [(path.name, *pair) for pair in found_in(prose_of(path), variants)]
    assert wrong == []


def test_variants_are_found_in_prose_only(tmp_path: Path) -> None:
    page, module = tmp_path / "page.rst", tmp_path / "module.py"
    page.write_text(
        "Back-filling, ``back-filling``, :doc:`back-filling`, EASYBackfilling and backfilling-sjf; a grey colour.\n\n"
        ".. code-block:: python\n\n   backfilling = gray\n\nThe center.\n"
    )
    module.write_text(
        '"""Minimise the make-span."""\n\nrealise = {"dataset": 1}  # labeled\nraise E(f"no dataset {realise}")\n'
    )
    assert [word for word, _ in found_in(prose_of(page), VARIANTS | ON_PAGES_ONLY)] == ["Back-filling", "center"]
    words = {word for word, _ in found_in(prose_of(module), VARIANTS)}
    assert words == {"Minimise", "make-span", "labeled", "dataset"}


def openings_of(path: Path) -> list[str]:
    """Return how docstrings, descriptions of parameters and help texts of a program begin."""
    found = []
    for text in docstrings_of(ast.parse(read(path))):
        lines = [line.strip() for line in text.strip().splitlines()]
        after_names = (line for name, line in pairwise(lines) if re.match(r"[*\w, ]+ : ", name))
        found += [lines[0], *after_names] if lines else []
    return found


def docstrings_of(tree: ast.AST) -> Iterator[str]:
    """Yield texts that stand alone as statements: docstrings, and what describes an attribute or an option."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def help_texts(path: Path) -> Iterator[str]:
    """Yield the help texts of options in a module of the command line."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.ClassDef):
            for field, text in pairwise(node.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    yield from docstrings_of(text)


def written(words: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return where words that are not to come back are written."""
    paths = (ROOT / "README.md", *PAGES, *EXAMPLES, *SOURCES)
    return [(path.name, *pair) for path in paths for pair in found_in(prose_of(path), words)]


def begun_with(words: dict[str, str]) -> list[tuple[str, str]]:
    """Return where docstrings begin with what they should not begin with."""
    pattern = re.compile("|".join(words.values()))
    return [(path.name, line) for path in SOURCES for line in openings_of(path) if pattern.match(line)]


def test_what_was_rewritten_does_not_come_back() -> None:
    assert written(NOT_AGAIN) == []
    assert begun_with(OPENINGS_NOT_AGAIN) == []


def test_help_texts_have_no_markup() -> None:
    modules = [path for path in SOURCES if path.parent.name == "cli" or path.name in ("options.py", "training.py")]
    wrong = [(path.name, text) for path in modules for text in help_texts(path) if MARKUP.search(text)]
    assert wrong == []


def former_names() -> list[str]:
    """Return what is called otherwise now: see ``docs/glossary.csv``."""
    with (ROOT / "docs" / "glossary.csv").open(newline="") as file:
        named = [name.strip() for row in csv.DictReader(file) for name in row["formerly"].split(";")]
    several = {name for name in named if len(re.findall(r"[A-Z]?[a-z]+", name)) > 1}
    return sorted(several - SEVERAL_WORDS | ONE_WORD)


def former_names_in(path: Path, names: list[str]) -> list[tuple[str, str]]:
    """Return former names that a file still has, be it in code or in prose."""
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names))})(?![\w])")
    allowed = STILL_READ.get(path.name, set())
    found = (match[0] for match in pattern.finditer(read(path)))
    return [(path.name, name) for name in found if name not in allowed]


def test_former_names_are_gone() -> None:
    names = former_names()
    assert len(names) > 50
    paths = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *PAGES, *EXAMPLES, *SOURCES)
    assert [wrong for path in paths for wrong in former_names_in(path, names)] == []


def test_what_is_not_to_come_back_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Of the files."""\n\nfrom x import Nearness, perform_all\n\n\ndef f(n: int) -> bool:\n'
        '    """Tell whether it fits.\n\n    n : int\n        Of the jobs.\n    """\n'
        '    raise E(f"n is {n}, want so many")  # nobody of your own\n\n\nclass O:\n'
        '    n: int = 1\n    """Jobs, see :class:`Job`."""\n    m: int = 1\n    """Jobs of ``m``."""\n'
        '    o: int = 1\n    """Plain."""\n'
    )
    words = {word for word, _ in found_in(prose_of(module), NOT_AGAIN)}
    assert words == {"Tell whether", "want", "so many", "nobody", "of your own"}
    assert [line for line in openings_of(module) if re.match("Of|Tell whether", line)] == [
        "Of the files.",
        "Tell whether it fits.",
        "Of the jobs.",
    ]
    assert [text for text in help_texts(module) if MARKUP.search(text)] == ["Jobs, see :class:`Job`.", "Jobs of ``m``."]
    assert former_names_in(module, ["Nearness", "perform_all", "held_by"]) == [
        ("module.py", "Nearness"),
        ("module.py", "perform_all"),
    ]
