"""Digests of what runs are made of: files, weights, code of users, and the code of desim, agents and workloads."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from desim import own_code, plugins
from desim.cli.own_sources import source_digest
from desim.exceptions import RecordError

__all__ = ["agent_digest", "code_digest", "file_digest", "problem_digest"]

#: Parts of desim that do not touch what a run records, but for what makes problems of options.
UNRELATED = ("cli", "experiments", "export", "plotting", "parallel")
MAKES_PROBLEMS = ("cli", "systems")
#: Code, and what the agents have learned.
SUFFIXES = (".py", ".safetensors", ".json")


def file_digest(path: Path) -> str:
    """Return a digest of the content of a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        Hexadecimal.

    Raises
    ------
    RecordError
        If the file cannot be read.
    """
    try:
        state = path.stat()
        return _file_digest(path.absolute(), state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _file_digest(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def agent_digest(agent: str) -> str:
    """Return a digest of what an agent is made of beyond the code of packages.

    Parameters
    ----------
    agent : str
        Its name.

    Returns
    -------
    str
        Hexadecimal: of the source of an agent of the user's own, or of weights that are named by a path; empty for
        agents that have neither.

    Raises
    ------
    RecordError
        If weights cannot be read.
    InvalidConfiguration
        If code of the user's own cannot be found.
    """
    if own_code.is_there(agent):
        return problem_digest(agent)
    source = agent.partition(":")[2]
    stem = source.rpartition("@")[0] or source
    files = sorted(Path(stem).parent.glob(f"{Path(stem).name}.*")) if "/" in stem else []
    if files:
        return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()
    return agent_digest(source) if source else ""


def problem_digest(problem: str) -> str:
    """Return a digest of the source of a problem of the user's own.

    Parameters
    ----------
    problem : str
        Its name.

    Returns
    -------
    str
        Hexadecimal; empty for problems of desim.

    Raises
    ------
    InvalidConfiguration
        If the code cannot be found.
    """
    known = ["desim", *plugins.packages()]
    return source_digest(problem, without=known) if own_code.is_reference(problem) else ""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of the source code and pretrained weights that runs depend on.

    Returns
    -------
    str
        Hexadecimal.
    """
    digest = hashlib.sha256()
    for package in dict.fromkeys(["desim", *plugins.packages()]):
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations if spec else None) or ():
            for path in sorted(path for path in _files(Path(root)) if path.suffix in SUFFIXES):
                name = path.relative_to(root)
                is_related = name.parts[0] not in UNRELATED or name.parts[:2] == MAKES_PROBLEMS
                if package != "desim" or is_related:
                    digest.update(f"{package}/{name}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    """Yield all files below a folder, those in linked folders, too."""
    for folder, _, names in os.walk(root, followlinks=True):
        yield from (Path(folder, name) for name in names)
