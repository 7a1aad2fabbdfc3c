"""The command: see `tests.mutants`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import mutants
from tests.mutants.mutant import MUTANTS, ROOMS, Mutant
from tests.mutants.running import KILLED, Results, run_all, run_tests
from tests.mutants.tree import copied, find, sources, test_paths

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OLD = HERE / "old_suite.json"


def chosen(names: list[str]) -> list[Mutant]:
    """Return the mutants of some names and packages, or all."""
    unknown = set(names) - set(ROOMS) - {mutant.name for mutant in MUTANTS}
    if unknown:
        sys.exit(f"no mutant and no room {', '.join(sorted(unknown))}; packages are {', '.join(ROOMS)}")
    return [mutant for mutant in MUTANTS if not names or mutant.name in names or mutant.room in names]


def show(names: list[str], tree: Path) -> int:
    """Print mutants with their places; 1 if one has none, or no tests."""
    lines_of = sources(tree)
    lost = 0
    for mutant in chosen(names):
        place = find(mutant, lines_of)
        where = place if isinstance(place, str) else f"{place.path.relative_to(tree)}:{place.first + 1}"
        missing = [name for name in mutant.tests if not test_paths(tree, (name,))]
        fault = isinstance(place, str) or len(missing) == len(mutant.tests)
        lost += fault
        note = f"  (no tests {', '.join(missing)})" if missing else ""
        print(f"{'!' if fault else ' '} {mutant.room:<12} {mutant.name:<32} {where}{note}")
        if isinstance(place, str):
            print(*(f"      {line}" for line in mutant.original.split("\n")), sep="\n")
    print(f"{len(chosen(names))} mutants, {lost} without a place or tests")
    return 1 if lost else 0


def baseline(names: list[str], tree: Path) -> int:
    """Run all tests of some mutants without any, and print how long each takes; 1 if one fails."""
    paths = dict.fromkeys(path for mutant in chosen(names) for path in test_paths(tree, mutant.tests))
    failures = 0
    with TemporaryDirectory(prefix="mutants-") as directory:
        copy = copied(tree, Path(directory) / "tree")
        for path in paths:
            begin = time.perf_counter()
            status, text = run_tests(copy, path)
            failures += status != 0
            took = time.perf_counter() - begin
            print(f"{took:6.1f} s  {path}{'' if status == 0 else f'  FAILS: {text}'}", flush=True)
    return 1 if failures else 0


def report(results: Results) -> int:
    """Print what was killed by packages, what was not, and what the old suite had killed; 1 if there is such a one."""
    old = json.loads(OLD.read_text()) if OLD.exists() else {}
    outcomes = {mutant.name: results.by_name.get(mutant.name, {}).get("outcome", "not run") for mutant in MUTANTS}
    print(f"{'room':<12} {'mutants':>7} {'killed':>7} {'old suite':>10}")
    for room in (*ROOMS, ""):
        names = [mutant.name for mutant in MUTANTS if room in ("", mutant.room)]
        killed = sum(outcomes[name] in KILLED for name in names)
        before = sum(old.get(name, {}).get("outcome") in KILLED for name in names)
        print(f"{room or 'all':<12} {len(names):>7} {killed:>7} {before:>10}")
    lost = 0
    for mutant in MUTANTS:
        outcome, before = outcomes[mutant.name], old.get(mutant.name, {}).get("outcome", "not run")
        if outcome not in KILLED:
            is_lost = before in KILLED
            lost += is_lost and outcome != "not run"
            print(f"{'!' if is_lost else ' '} {mutant.name}: {outcome}; the old suite: {before}")
    print(", ".join(f"{count} {outcome}" for outcome, count in Counter(outcomes.values()).items()))
    return 1 if lost else 0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=mutants.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "word", choices=("list", "run", "report", "baseline"), help="baseline runs tests without mutants"
    )
    parser.add_argument("names", nargs="*", help="mutants and packages (default: all)")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results" / "mutants.json", help="where results are kept"
    )
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="mutants at a time")
    parser.add_argument("--again", action="store_true", help="run those that have a result, too")
    parser.add_argument("--wide", action="store_true", help="go on with all tests of the room")
    options = parser.parse_args()
    results = Results(options.results)
    if options.word == "list":
        sys.exit(show(options.names, options.tree))
    if options.word == "baseline":
        sys.exit(baseline(options.names, options.tree.resolve()))
    if options.word == "run":
        done = () if options.again else results.by_name
        wanted = [mutant for mutant in chosen(options.names) if mutant.name not in done]
        run_all(wanted, options.tree.resolve(), results, jobs=options.jobs, wide=options.wide)
    sys.exit(report(results))


if __name__ == "__main__":
    main()
