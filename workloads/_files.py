"""Files as bytes, plain or gzip, whole or in blocks of lines, with one kind of error."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from desim.exceptions import DesimError, WorkloadError

__all__ = ["Pathish", "line_blocks", "open_binary", "read_bytes"]

Pathish = str | os.PathLike[str]

BLOCK = 1 << 18
#: A longer line is refused before it fills the memory.
LONGEST_LINE = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_binary(path: Pathish) -> Iterator[IO[bytes]]:
    """Open a file for reading; whatever goes wrong inside becomes a WorkloadError.

    Parameters
    ----------
    path : str or path-like
        The file; gzip is recognized by its first two bytes, whatever the name.

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
        with Path(path).open("rb") as plain:
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
    """Return the whole decompressed content of a file.

    Raises
    ------
    WorkloadError
        As for `open_binary`.
    """
    with open_binary(path) as file:
        return file.read()


def line_blocks(path: Pathish) -> Iterator[tuple[int, bytes]]:
    """Cut a file into blocks of whole lines, in constant memory.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzip.

    Yields
    ------
    number : int
        The number of the block's first line, from 1.
    block : bytes
        Whole lines, joined by line feeds, without the last line feed.

    Raises
    ------
    WorkloadError
        As for `open_binary`, and for a line of more than a mebibyte.
    """
    number, rest = 1, b""
    with open_binary(path) as file:
        while data := file.read(BLOCK):
            head, feed, tail = data.rpartition(b"\n")
            if feed:
                block = rest + head
                yield number, block
                number += block.count(b"\n") + 1
                rest = tail
            else:
                rest += tail
            if len(rest) > LONGEST_LINE:
                raise WorkloadError(f"{os.fspath(path)}: line {number} is longer than {LONGEST_LINE:,} bytes")
        if rest:
            yield number, rest
