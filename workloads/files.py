"""Files of workloads: read by path or by name in the catalogue, and written completely or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from desim import reading
from desim.exceptions import WorkloadError
from desim.reading import BLOCK, Limits, Pathish, line_blocks
from desim.workloads.catalogue import located

__all__ = [
    "BLOCK",
    "Pathish",
    "chunks",
    "line_blocks",
    "open_binary",
    "plain_number",
    "read_json",
    "read_text",
    "write_lines",
    "writing",
]


def open_binary(path: Pathish) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading, or one named in the catalogue; see :func:`desim.reading.open_binary`."""
    return reading.open_binary(located(path))


def chunks(path: Pathish, limit: Limits | None = None) -> Iterator[bytes]:
    """Yield consecutive parts of a file, or of one named in the catalogue; see :func:`desim.reading.chunks`."""
    return reading.chunks(located(path), limit)


def read_text(path: Pathish) -> str:
    """Return the text of a file, or of one named in the catalogue; see :func:`desim.reading.read_text`."""
    return reading.read_text(located(path))


def read_json(path: Pathish) -> Any:
    """Return the content of a JSON file, or of one named in the catalogue; see :func:`desim.reading.read_json`."""
    return reading.read_json(located(path))


@contextmanager
def writing(path: Pathish) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path-like
        Target file; compressed if its name ends in ``.gz`` (equal content gives equal bytes). Other compressions are
        only read.

    Yields
    ------
    binary file
        File to write to.

    Raises
    ------
    WorkloadError
        If the file cannot be written. An incomplete file is never left behind.
    """
    try:
        target = Path(path)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if "\0" in os.fspath(path):
            raise ValueError("embedded null byte")
        if target.suffix in (".bz2", ".xz", ".zst"):
            raise ValueError(f"only .gz is compressed here, not {target.suffix}")
        draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
        plain = draft.open("xb")
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from error
    try:
        with plain:
            if target.name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=plain, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield plain
        draft.replace(target)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def write_lines(path: Pathish, lines: Iterable[str]) -> None:
    """Write a text file with one item per line, see `writing`; items are consumed in batches."""
    with writing(path) as file:
        source = iter(lines)
        while batch := list(islice(source, 4096)):
            file.write("\n".join([*batch, ""]).encode("utf-8", "replace"))


def _unwritable(path: Pathish, error: Exception) -> WorkloadError:
    return WorkloadError(f"{os.fspath(path)}: cannot be written: {getattr(error, 'strerror', None) or error}")


def plain_number(value: float) -> str:
    """Return the shortest text that reads back as the same number; integers have no decimal point."""
    return str(int(value)) if value == int(value) else repr(float(value))
