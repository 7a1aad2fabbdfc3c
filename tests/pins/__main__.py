"""The command: see `tests.pins`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests import pins
from tests.pins import adapter, experiments
from tests.pins.comparing import (
    ABSENT,
    Difference,
    compare,
    digest_of_array,
    digest_of_column,
    digest_of_text,
    present_name,
    wanted,
)
from tests.pins.renamed import RENAMED

HERE = Path(__file__).parent
PROBLEMS = ("batch", "sites", "dag", "deferrable", "multiserver", "environments")
"""The four problems with 200 scenarios each, batch sites with 422, and episodes of the four environments."""


def scenarios(problem: str) -> list[dict[str, Any]]:
    """Return the scenarios of a problem."""
    found: list[dict[str, Any]] = json.loads((HERE / "scenarios" / f"{problem}.json").read_text())
    return found


def columns_of(problem: str, scenario: dict[str, Any]) -> dict[str, str]:
    """Run a scenario and return a digest a column and a metric; an exception is a column, too."""
    if problem == "environments" or "episode" in scenario:
        return {name: digest_of_array(values) for name, values in adapter.play(scenario).items()}
    try:
        with tempfile.TemporaryDirectory() as directory:
            result = adapter.run(problem, scenario, Path(directory))
            tables = {name: result.table(name) for name in result.table_names}
            metrics = result.metrics()
            ended = adapter.how_it_ended(problem, scenario, result)
    except Exception as error:
        return {"info.error": f"{type(error).__name__}: {error}"}
    found = {
        f"{name}.{column}": digest_of_column(table[column])
        for name, table in tables.items()
        for column in table.columns
    }
    found |= {f"metrics.{name}": digest_of_text(repr(float(value))) for name, value in metrics.items()}
    return found | {f"info.{name}": digest_of_text(repr(value)) for name, value in ended.items()}


def digests_now(problem: str) -> tuple[dict[str, list[str]], dict[int, str]]:
    """Return the digests of all scenarios by column, and the errors of those that failed by their places."""
    rows = [columns_of(problem, scenario) for scenario in scenarios(problem)]
    errors = {place: row["info.error"] for place, row in enumerate(rows) if "info.error" in row}
    names = dict.fromkeys(name for row in rows for name in row if name != "info.error")
    return {name: [row.get(name, ABSENT) for row in rows] for name in names}, errors


def digests_then(problem: str) -> dict[str, list[str]]:
    """Return the digests that were written."""
    path = HERE / "digests" / f"{problem}.json"
    if not path.exists():
        return {}
    return {name: text.split() for name, text in json.loads(path.read_text()).items()}


def save(problem: str, digests: dict[str, list[str]]) -> None:
    """Write digests, a column a line."""
    path = HERE / "digests" / f"{problem}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name: " ".join(digests[name]) for name in sorted(digests)}, indent=0) + "\n")


def differences(problem: str, only: list[str]) -> tuple[Difference, dict[int, str]]:
    """Compare a problem with what was written, and return the errors of scenarios, too."""
    now, errors = digests_now(problem)
    found = compare(digests_then(problem), now, RENAMED[problem])
    return found.restricted(lambda name: wanted(name, only)), errors


def check(problem: str, only: list[str]) -> bool:
    """Compare a problem, and print a line."""
    begin = time.process_time()
    difference, errors = differences(problem, only)
    failed = "".join(f"; scenario {place} FAILS: {text[:200]}" for place, text in list(errors.items())[:3])
    failed += f" ({len(errors)} fail in all)" if len(errors) > 3 else ""
    print(f"{problem}: {difference.in_words('scenarios')}{failed} [{time.process_time() - begin:.0f} s]", flush=True)
    return difference.is_fine and not errors


def write(problem: str, only: list[str]) -> None:
    """Write digests of all columns, or of some, under the names that they have now."""
    now, errors = digests_now(problem)
    if errors:
        sys.exit(f"{problem}: scenarios fail, nothing is written: {errors}")
    then = digests_then(problem) if only else {}
    kept = {
        name: values for name, values in then.items() if not wanted(present_name(name, RENAMED[problem]) or "", only)
    }
    found = kept | {name: values for name, values in now.items() if wanted(name, only)}
    save(problem, found)
    print(f"{problem}: {len(found) - len(kept)} columns written, {len(kept)} kept")


def show(problem: str, place: int) -> None:
    """Print a scenario and what comes of it, every value in full."""
    scenario = scenarios(problem)[place]
    print(json.dumps(scenario))
    if problem == "environments" or "episode" in scenario:
        np.set_printoptions(threshold=sys.maxsize, linewidth=200)
        for name, values in adapter.play(scenario).items():
            print(f"\n# {name}\n{values}")
        return
    with tempfile.TemporaryDirectory() as directory:
        result = adapter.run(problem, scenario, Path(directory))
        for name in result.table_names:
            print(f"\n# {name}")
            for row in [result.table(name).columns, *result.table(name).rows()]:
                print(*row, sep=", ")
        print("\n# metrics")
        ended = adapter.how_it_ended(problem, scenario, result)
        for name, value in (result.metrics() | ended).items():
            print(f"{name}: {value!r}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pins", description=pins.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = parser.add_subparsers(dest="word", required=True)
    for word, text in (("check", "compare with the digests"), ("write", "write digests")):
        one = words.add_parser(word, help=text)
        one.add_argument(
            "--problem", choices=PROBLEMS, action="append", help="one problem, or environments (default: all)"
        )
        one.add_argument("--only", nargs="+", default=[], metavar="TABLE.COLUMN", help="some columns; * is a wildcard")
        one.add_argument("--experiments", action="store_true", help="the quick experiments instead")
        one.add_argument("--paper", choices=experiments.PAPERS, action="append", help="one paper (default: all four)")
    one = words.add_parser("show", help="print a scenario and what comes of it")
    one.add_argument("problem", choices=PROBLEMS)
    one.add_argument("place", type=int, help="of the scenario, from 0 on")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.word == "show":
        show(options.problem, options.place)
        return
    if options.word == "write":
        for name in options.paper or experiments.PAPERS if options.experiments else options.problem or PROBLEMS:
            (experiments.write if options.experiments else write)(name, options.only)
        return
    if options.experiments:
        fine = [experiments.check(name, options.only) for name in options.paper or experiments.PAPERS]
    else:
        fine = [check(name, options.only) for name in options.problem or PROBLEMS]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
