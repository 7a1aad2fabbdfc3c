"""Public logs and workflows by name: where they are, whom to cite, how to get and how to check them.

`fetch` downloads a file into the user's cache, and so does ``desim fetch NAME``. Readers, and the option ``--trace``,
then take the name in place of a path. A file that was put into the cache by hand serves as well. Nothing is
downloaded unless you ask for it.

The cache is the directory in the environment variable ``DESIM_CACHE``, or else desim's directory in the cache of the
user, such as ``~/.cache/desim``.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from desim.checks import check_choice
from desim.exceptions import DesimError, WorkloadError
from desim.reading import open_binary, read_text

__all__ = ["Content", "Entry", "citation", "entries", "fetch", "folder", "located"]

DATA = Path(__file__).with_suffix(".toml")
#: Number of bytes at the beginning of a file that its header is expected in, and of those downloaded at a time.
HEAD = 1 << 16
#: Seconds without any byte from the server after which a download fails.
TIMEOUT = 30.0


class Content(NamedTuple):
    """Content of a file, unpacked.

    Attributes
    ----------
    size : int
        Number of bytes.
    sha256 : str
        Digest in hexadecimal.
    rows : int
        Lines that are neither blank nor comments beginning with a semicolon.
    head : str
        The beginning.
    """

    size: int
    sha256: str
    rows: int
    head: str


@dataclass(frozen=True)
class Entry:
    """Public workload of the catalogue.

    Attributes
    ----------
    name : str
        Name in place of a path.
    problem : str
        Problem whose jobs it holds.
    about : str
        What was recorded, where and when.
    address, file : str
        Where to download it: `file` is relative to the address.
    source, citation, licence : str
        Who provided it, what to cite, and the licence or terms that the source states.
    oddities : str
        What to know before using it.
    jobs, cores : int or None
        Number of rows of a log, and of cores, as published.
    begins : tuple of str
        Texts that the beginning of the content has.
    sha256 : str
        Digest of the unpacked content; empty if it is unknown to us.
    needs : tuple of str
        Names of files to fetch with it.
    """

    name: str
    problem: str
    about: str
    address: str
    file: str
    source: str
    citation: str
    licence: str
    oddities: str = ""
    jobs: int | None = None
    cores: int | None = None
    begins: tuple[str, ...] = ()
    sha256: str = ""
    needs: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Address of the file."""
        return self.address + self.file

    @property
    def target(self) -> Path:
        """Path of the file in the cache."""
        return folder() / self.file.rpartition("/")[2]

    @property
    def path(self) -> Path | None:
        """Path of the file if it is there, packed or unpacked, otherwise None."""
        either = (self.target, self.target.with_name(self.target.name.removesuffix(".gz")))
        return next((path for path in either if path.is_file()), None)

    def check(self, path: Path, place: str = "") -> Content:
        """Return the content of a file if it can be this workload.

        Parameters
        ----------
        path : Path
            File to check.
        place : str
            What messages call the file. Default: its path.

        Returns
        -------
        Content
            Size, digest, number of rows and beginning.

        Raises
        ------
        WorkloadError
            If the file cannot be read, is damaged, or has another digest, or, where no digest is known, another header.
        """
        wrong = f"{place or path} is not {self.name}"
        try:
            state = path.stat()
            found = _content(path, state.st_size, state.st_mtime_ns)
        except WorkloadError as error:
            raise WorkloadError(f"{wrong}: {str(error).removeprefix(f'{path}: ')}") from error
        except OSError as error:
            raise WorkloadError(f"{path}: cannot be read: {error.strerror or error}") from error
        if self.sha256 and found.sha256 != self.sha256:
            raise WorkloadError(f"{wrong}: its unpacked content has sha256 {found.sha256}, expected {self.sha256}")
        for text in self.begins:
            if text not in found.head:
                raise WorkloadError(f"{wrong}: its beginning does not have {text!r}")
        return found

    def differences(self, content: Content) -> str:
        """Return how the numbers of jobs and cores in a file differ from those published; empty if they do not."""
        found = {"jobs": content.rows - self.file.endswith(".csv")}  # which has a line with the names of the columns
        if stated := re.search(r"^;\s*MaxProcs:\s*(\d+)\s*$", content.head, re.MULTILINE):
            found["cores"] = int(stated[1])
        published = {"jobs": self.jobs, "cores": self.cores}
        wrong = {what: number for what, number in found.items() if published[what] not in (None, number)}
        return ", ".join(f"{number:,} {what}, but {published[what]:,} as published" for what, number in wrong.items())


def folder() -> Path:
    """Return the directory of downloaded files, which need not exist."""
    if given := os.environ.get("DESIM_CACHE"):
        return Path(given).absolute()
    from platformdirs import user_cache_path

    return user_cache_path("desim", appauthor=False)


@cache
def entries() -> dict[str, Entry]:
    """Return the catalogue by name."""
    found = {}
    try:
        document = tomllib.loads(read_text(DATA))
        for name, own in document["workload"].items():
            known = {**document["collection"].get(own.pop("collection", ""), {}), **own}
            lists = {key: tuple(known.get(key, ())) for key in ("begins", "needs")}
            found[name] = Entry(name, **known | lists)
    except (tomllib.TOMLDecodeError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise WorkloadError(f"{DATA} is damaged ({error}); try to install desim again") from error
    return found


def located(source: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a workload that may be named.

    Parameters
    ----------
    source : str or path-like
        Name in the catalogue, or anything else. A path object is never a name, and ``./NAME`` is a file.

    Returns
    -------
    str or path-like
        Path of the file in the cache, which has been checked; anything else unchanged.

    Raises
    ------
    WorkloadError
        If the workload has not been fetched, or the file is not the right one.
    """
    entry = entries().get(source) if isinstance(source, str) else None
    if entry is None:
        return source
    path = entry.path
    if path is None:
        raise WorkloadError(
            f"{entry.name} has not been fetched: try `desim fetch {entry.name}`, or put the file from {entry.url} at "
            f"{entry.target}"
        )
    entry.check(path)
    return path


def citation(source: str) -> str:
    """Return whom to acknowledge and what to cite for a workload.

    Parameters
    ----------
    source : str
        Names in the catalogue, or anything else, separated by commas.

    Returns
    -------
    str
        One sentence per name; empty for anything else.
    """
    named = [entries().get(part.strip()) for part in source.split(",")]
    return "; ".join(f"{one.name}: {one.source}, {one.url}; cite {one.citation}" for one in named if one is not None)


def fetch(name: str, *, force: bool = False) -> Path:
    """Download a workload, and what it needs, into the cache, unless it is there, and check it.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    force : bool
        Whether to download again what is there.

    Returns
    -------
    Path
        Path of the file. It appears there only when it is complete and has been checked.

    Raises
    ------
    InvalidConfiguration
        If the name is unknown.
    WorkloadError
        If the file is not the right one.
    DesimError
        If it cannot be downloaded or written; the message says where to put the file by hand.

    Examples
    --------
    >>> from desim.workloads import catalogue
    >>> catalogue.entries()["KTH-SP2"].cores
    100
    """
    entry = entries()[check_choice("name", name, entries())]
    for other in entry.needs:
        fetch(other, force=force)
    if (path := entry.path) is not None and not force:
        entry.check(path)
        return path
    target = entry.target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetch-", dir=target.parent) as drafts:
            draft = Path(drafts, target.name)
            _download(entry, draft)
            entry.check(draft, f"the file from {entry.url}")
            draft.replace(target)
    except OSError as error:
        raise DesimError(f"{target}: cannot be written: {error.strerror or error}") from error
    return target


def _download(entry: Entry, path: Path) -> None:
    """Download a file; its errors say what to do instead."""
    from pooch import HTTPDownloader
    from requests import RequestException

    try:
        HTTPDownloader(timeout=TIMEOUT, chunk_size=HEAD)(entry.url, str(path), None)
    except RequestException as error:
        raise DesimError(
            f"{entry.name} cannot be downloaded ({_reason(error)}): get {entry.url} in another way, and put it at "
            f"{entry.target}"
        ) from error


def _reason(error: BaseException) -> str:
    """Return the innermost cause of an error: those around it repeat it and the address."""
    while error.__context__ is not None or error.__cause__ is not None:
        error = cast(BaseException, error.__cause__ or error.__context__)
    return str(error) or type(error).__name__


@lru_cache(maxsize=64)
def _content(path: Path, size: int, modified: int) -> Content:
    """Read a file; the result is kept until its size or time changes."""
    digest, length, rows, head = hashlib.sha256(), 0, 0, b""
    with open_binary(path) as file:
        is_new = True
        for line in iter(partial(file.readline, HEAD), b""):  # parts of a line, if it is long
            digest.update(line)
            length += len(line)
            rows += is_new and line.strip()[:1] not in (b"", b";")
            is_new = line.endswith(b"\n")
            head += line[: HEAD - len(head)]
    return Content(length, digest.hexdigest(), rows, head.decode("utf-8", "replace"))
