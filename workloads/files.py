"""Files, plain or gzip, with one error type: read whole or in blocks of lines, written completely or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, cast

import numpy as np

from desim.exceptions import DesimError, WorkloadError
from desim.workloads.catalogue import located

__all__ = ["Pathish", "chunks", "line_blocks", "open_binary", "plain_number", "read_bytes", "write_lines", "writing"]

Pathish = str | os.PathLike[str]

#: Number of bytes read at a time.
BLOCK = 1 << 18
#: Longest accepted line in bytes: longer ones are refused before they fill the memory.
LONGEST_LINE = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_binary(path: Pathish) -> Iterator[IO[bytes]]:
    """Open a file for reading, and turn read errors into a WorkloadError.

    Parameters
    ----------
    path : str or path-like
        File to read, or its name in the catalogue; gzip is recognized by its first two bytes, whatever its name.

    Yields
    ------
    binary file
        The decompressed bytes.

    Raises
    ------
    WorkloadError
        If the file cannot be opened or read, or its gzip data is damaged.
    """
    try:
        with Path(located(path)).open("rb") as plain:
            if plain.peek(2)[:2] == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=plain, mode="rb") as unpacked:
                    yield cast(IO[bytes], unpacked)
            else:
                yield plain
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise WorkloadError(f"{os.fspath(path)}: corrupt gzip data: {error}") from error
    except OSError as error:
        raise WorkloadError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, DesimError):
            raise
        raise WorkloadError(f"{os.fspath(path)!r}: cannot be read: {error}") from error


def read_bytes(path: Pathish) -> bytes:
    """Return the whole decompressed content of a file; errors are those of `open_binary`."""
    with open_binary(path) as file:
        return file.read()


def chunks(path: Pathish) -> Iterator[bytes]:
    """Yield consecutive parts of a file, split at arbitrary bytes; errors are those of `open_binary`."""
    with open_binary(path) as file:
        while data := file.read(BLOCK):
            yield data


def line_blocks(path: Pathish, parts: Iterable[bytes], num_lines: int = 4096) -> Iterator[tuple[int, bytes]]:
    """Split consecutive parts of a file into blocks of whole lines, in constant memory.

    Parameters
    ----------
    path : str or path-like
        The file, for messages.
    parts : iterable of bytes
        Parts of the file, for example from `chunks`.
    num_lines : int
        Number of lines per block; the last block may have fewer.

    Yields
    ------
    number : int
        Number of the block's first line, counted from 1.
    block : bytes
        Whole lines, joined by line feeds, without the last line feed.

    Raises
    ------
    WorkloadError
        If a line is longer than 1 MiB.
    """
    number, lines, open_length = 1, 0, 0
    held: list[bytes] = []
    for part in parts:
        held.append(part)
        feeds = part.count(b"\n")
        lines += feeds
        open_length = len(part) - part.rfind(b"\n") - 1 if feeds else open_length + len(part)
        if open_length > LONGEST_LINE:
            raise WorkloadError(f"{os.fspath(path)}: line {number + lines} is longer than {LONGEST_LINE:,} bytes")
        if lines >= num_lines:
            data = b"".join(held)
            ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
            start = 0
            for end in ends[num_lines - 1 :: num_lines].tolist():
                yield number, data[start:end]
                start = end + 1
                number += num_lines
            held, lines = [data[start:]], lines % num_lines
    if rest := b"".join(held):
        yield number, rest.removesuffix(b"\n")


@contextmanager
def writing(path: Pathish) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path-like
        Target file; compressed if its name ends in ``.gz`` (equal content gives equal bytes).

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
