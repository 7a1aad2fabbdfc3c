"""The same words for the same things, in pages, docstrings, comments and messages; British spelling, with -ize."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    "AzurePublicDataset",
)
CODE = re.compile(r"``.*?``|:[\w:]+:`[^`]*`|`[^`\n]*`|https?:\S+|^ *\$ .*$", re.M | re.S)
LISTING = re.compile(r"^( *)\.\. code-block::[^\n]*\n(?:\1 +[^\n]*\n| *\n)+|^```.*?^```", re.M | re.S)

DIRECTIVE = re.compile(r"^ *\.\. [\w-]+::.*$|^ +:\w+:.*$|^ +\w+$", re.M)  # and names in lists of them


def prose_of(path: Path) -> str:
    """Return what people read: pages without listings; comments, docstrings and messages of programs."""
    text = read(path)
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        parts = [token.string for token in tokens if token.type == tokenize.COMMENT]
        values = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        text = "\n\n".join([*parts, *(value for value in values if isinstance(value, str) and " " in value.strip())])
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
