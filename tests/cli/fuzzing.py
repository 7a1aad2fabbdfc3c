"""Inputs that are almost right: small valid files of all formats, mutated with their structure in mind, and options.

As a program, ``python fuzzing.py FIRST LAST DIRECTORY``, it gives inputs to the command line, one after the other under
a limit of memory and time, and prints a line of JSON for each.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "corpus"
SECONDS = 60
MEMORY = 4 * 2**30

SWF = "; MaxProcs: 8\n; UnixStartTime: 0\n" + "".join(
    f"{n} {5 * n} -1 {10 + n} {n % 4 + 1} -1 -1 {n % 4 + 1} 60 -1 1 {n % 2} 1 -1 1 1 -1 -1\n" for n in range(1, 7)
)
BATSIM = {
    "nb_res": 8,
    "jobs": [
        {"id": f"{n}", "subtime": 3 * n, "res": 2, "walltime": 30, "profile": "d" if n % 2 else "e"} for n in range(5)
    ],
    "profiles": {"d": {"type": "delay", "delay": 10}, "e": {"type": "delay", "delay": 7.5}},
}
TABLE = "job_id,submission_time,requested_cores,requested_time,run_time\n1,0,2,60,50\n2,5,4,30,30\n3,9,1,20,10\n"
DAX = """<?xml version="1.0"?><adag name="w"><job id="a" name="a" runtime="3"><uses file="f" link="output" size="9"/>
</job><job id="b" name="b" runtime="4"><uses file="f" link="input" size="9"/></job>
<child ref="b"><parent ref="a"/></child></adag>
"""
WFFORMAT = {
    "name": "w",
    "schemaVersion": "1.3",
    "workflow": {
        "tasks": [
            {"name": "a", "id": "a", "runtime": 3.0, "parents": [], "children": ["b"], "files": []},
            {"name": "b", "id": "b", "runtime": 4.0, "parents": ["a"], "children": [], "files": []},
        ]
    },
}
NODES_YAML = "- cores: 4\n  count: 2\n  memory: 8 GiB\n  gpus: 1\n- name: big\n  cores: 8\n  features: [fast]\n"
NODES_CSV = "name,count,cores,memory\nn,2,4,8 GiB\nbig,1,8,\n"
LIMITS = "- scope: user\n  cores: 4\n"
STUDY = 'problem = "batch"\nagents = ["fcfs", "sjf"]\nseeds = 1\njobs = 5\nworkers = 1\n'
BATCH, DAG = ("run", "batch", "--agent", "fcfs"), ("run", "dag", "--agent", "heft", "--executors", "2")

NUMBERS = (
    "-1", "0", "1e308", "-1e308", "nan", "inf", "1e-320", "99999999999999999999", "9223372036854775807", "2.5", "1e3",
    "4,096", "", "x", "1" * 5_000, "0x10", "１６", "2001-99-99", "true", "null", "1000000000", "[]", "{}",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2.5, 1e308, float("nan"), float("inf"), 10**30, "", "x", "16", [], {}, [[[]]], ["a"], {"a": 1},
    "a" * 3_000, "../x", "/etc/passwd", "\0", 10**9,
)  # fmt: skip
OPTIONS: dict[str, tuple[str, ...]] = {
    "batch": (
        "--cores", "--jobs", "--load", "--seed", "--overestimate", "--nodes", "--users", "--until", "--cycle",
        "--warm-up", "--moldable", "--mean-time-to-failure", "--failure-unit", "--split", "--sample", "--window",
        "--over-time-limit",
        "--placement", "--predictor", "--limits", "--reservations", "--qos", "--checkpoint-interval", "--columns",
        "--attributes", "--session-gap",
    ),
    "dag": ("--jobs", "--executors", "--mean-interval", "--ccr", "--seed", "--transfer-speed", "--load", "--until"),
    "deferrable": ("--slots", "--arrival-rate", "--capacity", "--seed", "--set", "--delay-weight", "--until"),
    "multiserver": ("--slots", "--ports", "--nodes", "--density", "--contention", "--probability", "--work", "--seed"),
}  # fmt: skip
SMALL = {
    "batch": ("--jobs", "5"),
    "dag": ("--jobs", "2", "--executors", "2"),
    "deferrable": ("--slots", "20"),
    "multiserver": ("--slots", "10", "--ports", "3", "--nodes", "4"),
}


def mutated_text(rng: random.Random, text: str) -> str:
    """Return text in which numbers, words, lines or letters are replaced, doubled, swapped or left out."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        found = list(re.finditer(r"-?\d+(?:\.\d+)?", text))
        lines = text.splitlines(keepends=True)
        match rng.randrange(8):
            case 0 | 1 | 2 if found:
                one = rng.choice(found)
                text = text[: one.start()] + rng.choice(NUMBERS) + text[one.end() :]
            case 3 if lines:
                at = rng.randrange(len(lines))
                text = "".join([*lines[:at], *lines[at : at + 1] * rng.choice((0, 2, 300)), *lines[at + 1 :]])
            case 4 if lines:
                rng.shuffle(lines)
                text = "".join(lines)
            case 5:
                at = rng.randrange(len(text) + 1)
                text = (
                    text[:at]
                    + rng.choice(("\0", "\ufeff", "\r", "\t", "{", "[" * 5_000, "- " * 3_000, "&a", "*a", ","))
                    + text[at:]
                )
            case 6:
                text = text[: rng.randrange(len(text) + 1)]
            case _:
                old, new = rng.choice(
                    ((",", ";"), (":", "="), ("\n", "\r"), (" ", "\t"), ('"', "'"), ("<", "&"), ("e", ""))
                )
                text = text.replace(old, new)
    return text


def mutated_json(rng: random.Random, document: Any) -> str:
    """Return a document as JSON, in which values and names are replaced."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            key: Any = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
            if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
                break
            place = place[key]
        else:
            break
        match rng.randrange(4):
            case 0 if isinstance(place, dict):
                place[rng.choice(("", "x", "id", "type", "res"))] = place.pop(key)
            case 1:
                del place[key]
            case _:
                place[key] = rng.choice(VALUES)
    text = json.dumps(document)
    return mutated_text(rng, text) if rng.random() < 0.2 else text


def files(rng: random.Random, here: Path) -> list[tuple[str, Callable[[], str | bytes], tuple[str, ...]]]:
    """Return the readers: name of the file, its content, and the command line around it."""
    stored = json.loads((here / "stored" / "result.json").read_text())
    made = json.loads((here / "stored" / "provenance.json").read_text())
    out = str(here / "copy")
    sacct, stg, standard, taillard, pegasus, psplib, several, patterson = (
        (CORPUS / name).read_text()
        for name in (
            "sacct.csv",
            "graph.stg",
            "standard.jsp",
            "taillard.jsp",
            "pegasus.yml",
            "project.sm",
            "project.mm",
            "project.rcp",
        )
    )
    return [
        ("w.swf", lambda: mutated_text(rng, SWF), (*BATCH, "--trace", "FILE")),
        ("w.swf.gz", lambda: gzip.compress(mutated_text(rng, SWF).encode()), (*BATCH, "--trace", "FILE")),
        ("w.swf", lambda: mutated_text(rng, SWF), (*BATCH, "--stream", "--trace", "FILE")),
        ("w.swf", lambda: mutated_text(rng, SWF), (*BATCH, "--dependencies", "keep", "--trace", "FILE")),
        ("w.json", lambda: mutated_json(rng, BATSIM), (*BATCH, "--trace", "FILE")),
        ("w.csv", lambda: mutated_text(rng, TABLE), (*BATCH, "--cores", "8", "--trace", "FILE")),
        ("w.csv", lambda: mutated_text(rng, TABLE), ("convert", "FILE", out + ".json", "--cores", "8", "--force")),
        ("w.dax", lambda: mutated_text(rng, DAX), (*DAG, "--trace", "FILE")),
        ("w.json", lambda: mutated_json(rng, WFFORMAT), (*DAG, "--trace", "FILE")),
        ("n.yaml", lambda: mutated_text(rng, NODES_YAML), (*BATCH, "--jobs", "5", "--nodes", "FILE")),
        ("n.csv", lambda: mutated_text(rng, NODES_CSV), (*BATCH, "--jobs", "5", "--nodes", "FILE")),
        ("l.yaml", lambda: mutated_text(rng, LIMITS), (*BATCH, "--jobs", "5", "--users", "2", "--limits", "FILE")),
        ("s.toml", lambda: mutated_text(rng, STUDY), ("compare", "FILE")),
        ("w.csv", lambda: mutated_text(rng, sacct), (*BATCH, "--cores", "8", "--trace", "FILE")),
        ("w.csv", lambda: mutated_text(rng, sacct), (*BATCH, "--strict", "--cores", "8", "--trace", "FILE")),
        ("w.stg", lambda: mutated_text(rng, stg), (*DAG, "--trace", "FILE")),
        ("w.jsp", lambda: mutated_text(rng, standard), (*DAG, "--trace", "FILE")),
        ("w.jsp", lambda: mutated_text(rng, taillard), (*DAG, "--trace", "FILE")),
        ("w.sm", lambda: mutated_text(rng, psplib), (*DAG, "--trace", "FILE")),
        ("w.mm", lambda: mutated_text(rng, several), (*DAG, "--trace", "FILE")),
        ("w.rcp", lambda: mutated_text(rng, patterson), (*DAG, "--trace", "FILE")),
        ("w.yml", lambda: mutated_text(rng, pegasus), (*DAG, "--trace", "FILE")),
        (
            "stored/provenance.json",
            lambda: mutated_json(rng, made),
            ("view", str(here / "stored"), "--out", out + ".html"),
        ),
        ("stored/result.json", lambda: mutated_json(rng, stored), ("validate", str(here / "stored"))),
        (
            "stored/result.json",
            lambda: mutated_json(rng, stored),
            ("convert", str(here / "stored"), out + ".csv", "--force"),
        ),
    ]


def options(rng: random.Random) -> tuple[str, ...]:
    """Return a command line with options of bad values."""
    problem = rng.choice(list(OPTIONS))
    chosen = rng.sample(OPTIONS[problem], rng.choice((1, 1, 2)))
    values = (
        f"{name}={rng.choice((*NUMBERS, 'a' * 5_000, '/dev/null', '7d', '3x2', 'a=b', 'a:b', 'os:system'))}"
        for name in chosen
    )
    return ("run", problem, *SMALL[problem], *values)


def perform(number: int, here: Path, main: Callable[[list[str]], int]) -> dict[str, Any]:
    """Give an input to the command line, and return what came of it."""
    rng = random.Random(number)
    kept = {path: path.read_bytes() for path in (here / "stored").glob("*.json")}
    arguments = list(options(rng))
    if number % 4:
        readers = files(rng, here)
        name, content, command = readers[number % len(readers)]
        data = content()
        (here / name).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        arguments = [str(here / name) if word == "FILE" else word for word in command]
    begin, work, error, status, out = time.monotonic(), time.process_time(), io.StringIO(), -1, io.StringIO()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(out):
            status = main(arguments)
        is_parser = "For full helptext" in error.getvalue()  # which adds the help of an option in a box
        kind = "accepted" if status == 0 else "one sentence" if error.getvalue().count("\n") == 1 else "several lines"
        kind = "parser" if is_parser else kind
        if status == 1:  # validate says on standard output what is invalid
            is_told = arguments[0] == "validate" and not error.getvalue() and out.getvalue()
            kind = "one sentence" if is_told else f"status 1, {kind}"
    except TooLong:
        kind = "too long"
    except BaseException:
        kind = "traceback"
        error.write(traceback.format_exc())
    finally:
        signal.alarm(0)
        for path, content in kept.items():
            path.write_bytes(content)
    told = error.getvalue()[-600:] if kind not in ("accepted", "parser", "one sentence") else ""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024
    command = " ".join(arguments)[:300]
    return {
        "number": number,
        "kind": kind,
        "seconds": time.monotonic() - begin,
        "processor": time.process_time() - work,
        "MiB": used,
        "told": told,
        "call": command,
    }


class TooLong(BaseException):
    """An input has taken too long; a sweep does not take it for an error of a run."""


def _too_long(number: int, frame: object) -> None:
    raise TooLong


def prepare(here: Path, main: Callable[[list[str]], int]) -> None:
    """Store a small result."""
    if not (here / "stored").exists():
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([*BATCH, "--jobs", "5", "--out", str(here / "stored")]) == 0


if __name__ == "__main__":
    import warnings

    from desim.cli import main as desim

    warnings.simplefilter("default")
    place = Path(sys.argv[3])
    prepare(place, desim)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps({"begun": each}), flush=True)
        print(json.dumps(perform(each, place, desim)), flush=True)
