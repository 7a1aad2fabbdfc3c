"""Files from outside: the only place that opens, unpacks and decodes them, with limits for what they take.

Plain files and files packed by gzip, bzip2, xz or Zstandard are read alike, whatever their names. A small file must
not fill the memory or take forever, so that these are refused with one sentence: what is not a regular file (a device,
a pipe), what unpacks to far more than it is, what is larger than a limit although it must be read as a whole, and JSON
and YAML nested deeper than a bound. YAML has no aliases. A file that you trust may exceed the limits, see `limits`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from desim.checks import short_repr
from desim.exceptions import DesimError, InvalidConfiguration, WorkloadError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Limits",
    "Pathish",
    "bytes_of",
    "chunks",
    "current_limits",
    "limits",
    "line_blocks",
    "open_binary",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_json",
    "read_parquet",
    "read_text",
    "suffix_of",
]

Pathish = str | os.PathLike[str]

#: Number of bytes read at a time.
BLOCK = 1 << 18
#: Longest accepted line in bytes: longer ones are refused before they fill the memory.
LONGEST_LINE = 1 << 20
#: Number of unpacked bytes up to which the ratio to the packed ones does not count.
UNSUSPICIOUS = 1 << 24


@dataclass(frozen=True)
class Limits:
    """Limits for a file that is read.

    Attributes
    ----------
    size : float
        Largest size in bytes, unpacked, of a file that is read as a whole.
    ratio : float
        Largest ratio of unpacked to packed bytes, of files that unpack to more than 16 MiB.
    depth : int
        Largest depth of lists and mappings within each other in JSON, YAML and XML.
    """

    size: float = float(1 << 30)
    ratio: float = 200.0
    depth: int = 100


_CURRENT = ContextVar("limits", default=Limits())  # noqa: B039  # frozen


def current_limits() -> Limits:
    """Return the limits in force."""
    return _CURRENT.get()


_AMOUNT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*(?:([KMGT])(?:iB|B)?|B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def bytes_of(name: str, value: Any) -> int:
    """Return an amount of memory in bytes.

    Parameters
    ----------
    name : str
        What it is, for messages.
    value : int, float or str
        Number of bytes, or a number with a unit: ``"64 GiB"``, ``"512M"``.

    Returns
    -------
    int
        Number of bytes, from 0 to 2^63 - 1.

    Raises
    ------
    InvalidConfiguration
        If the value is anything else.

    Examples
    --------
    >>> bytes_of("memory", "1.5 KiB"), bytes_of("memory", 7)
    (1536, 7)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # its text has no exponent
    found = None if isinstance(value, bool) else _AMOUNT.fullmatch(str(value).strip())
    amount = -1.0 if found is None else float(found[1]) * (1 << _UNITS[(found[2] or "").upper()])
    if not 0 <= amount < 1 << 63:
        wanted = "expected bytes >= 0, or a number with a unit such as 64 GiB"
        raise InvalidConfiguration(f"{name}: got {short_repr(value)}, {wanted}")
    return round(amount)


@contextmanager
def limits(size: float | str | None = None, ratio: float | None = None) -> Iterator[Limits]:
    """Set other limits for all files that are opened within a ``with`` statement.

    Parameters
    ----------
    size : float or str, optional
        Largest size of a file that is read as a whole, in bytes or with a unit such as ``"8 GiB"``. A size alone lifts
        the limit of the ratio.
    ratio : float, optional
        Largest ratio of unpacked to packed bytes.

    Yields
    ------
    Limits
        The limits.

    Examples
    --------
    >>> with limits("8 GiB") as known:
    ...     known.size / 2**30, known.ratio
    (8.0, inf)
    """
    own = _CURRENT.get()
    if size is not None:
        own = replace(own, size=float(bytes_of("max_size", size)), ratio=math.inf)
    if ratio is not None:
        own = replace(own, ratio=ratio)
    token = _CURRENT.set(own)
    try:
        yield own
    finally:
        _CURRENT.reset(token)


def _zstd(file: IO[bytes]) -> IO[bytes]:
    for name in ("compression.zstd", "backports.zstd"):  # of Python 3.14, and the same for earlier versions
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        return cast(IO[bytes], module.ZstdFile(file))
    raise WorkloadError("is compressed by Zstandard; try Python 3.14, `pip install backports.zstd`, or `zstd -d`")


#: Change of depth by a byte of JSON, and the parts of JSON that tell the depth.
_STEPS = np.zeros(256, np.int8)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]')

#: Name and reader of each compression, by the first bytes of a file.
_PACKED: dict[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file, mode="rb")),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("Zstandard", _zstd),
}
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf\x27\x1c": "a 7z archive"}
_MOST_MAGIC = max(map(len, [*_PACKED, *_ARCHIVES]))


class _Unpacked(io.RawIOBase):
    """Unpacked bytes of a file, as long as they are in proportion to the packed ones."""

    def __init__(self, name: str, unpacked: IO[bytes], plain: IO[bytes], ratio: float) -> None:
        self._name, self._unpacked, self._plain, self._ratio = name, unpacked, plain, ratio
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._unpacked.read(len(buffer))
        self._size += len(data)
        if self._size > max(UNSUSPICIOUS, self._ratio * self._plain.tell()):
            raise WorkloadError(
                f"{self._name}: unpacks to more than {self._ratio:g} times its size, expected less; if you trust it, "
                "try --max-size, or desim.reading.limits in Python"
            )
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_binary(path: Pathish, limit: Limits | None = None) -> Iterator[io.BufferedReader]:
    """Open a file for reading, and turn read errors into a WorkloadError.

    Parameters
    ----------
    path : str or path-like
        File to read, plain or packed by gzip, bzip2, xz or Zstandard, which its first bytes tell, whatever its name.
    limit : Limits, optional
        Limits (default: those in force).

    Yields
    ------
    binary file
        The unpacked bytes.

    Raises
    ------
    WorkloadError
        If the file is not a regular one, cannot be opened or read, is damaged, or unpacks to far more than its size.
    """
    name = os.fspath(path)
    kind = "packed"
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116  # a device or a pipe must not even be opened
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise WorkloadError(f"{name}: is a device or a pipe, expected a file; try to copy its content into a file")
        with open(name, "rb") as plain:  # noqa: PTH123  # may be a str
            head = plain.peek(_MOST_MAGIC)
            if archive := next((what for magic, what in _ARCHIVES.items() if head.startswith(magic)), ""):
                raise WorkloadError(f"{name}: is {archive}, expected a single file; try to unpack it")
            packed = next((one for magic, one in _PACKED.items() if head.startswith(magic)), None)
            if packed is None:
                yield plain
                return
            kind, opener = packed
            try:
                unpacked = opener(plain)
            except WorkloadError as error:
                raise WorkloadError(f"{name}: {error}") from error
            with unpacked:
                ratio = (limit or _CURRENT.get()).ratio
                yield io.BufferedReader(_Unpacked(name, unpacked, plain, ratio), BLOCK)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise WorkloadError(f"{name}: corrupt {kind} data: {error}") from error
    except OSError as error:
        if kind == "bzip2" and error.errno is None:  # as bz2 tells damage
            raise WorkloadError(f"{name}: corrupt {kind} data: {error}") from error
        raise WorkloadError(f"{name}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, DesimError):
            raise
        raise WorkloadError(f"{name!r}: cannot be read: {error}") from error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # its class exists only where Zstandard can be read
            raise
        raise WorkloadError(f"{name}: corrupt {kind} data: {error}") from error


def suffix_of(path: Pathish) -> str:
    """Return the suffix of a file's name in lower case, without that of a compression."""
    name = os.path.basename(os.fspath(path)).lower()  # noqa: PTH119  # may be a str
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        name = name.removesuffix(packed)
    return os.path.splitext(name)[1]  # noqa: PTH122


def read_bytes(path: Pathish) -> bytes:
    """Return the whole unpacked content of a file.

    Parameters
    ----------
    path : str or path
        File.

    Raises
    ------
    WorkloadError
        As in `open_binary`, and if the content is larger than the limit.
    """
    most = _CURRENT.get().size
    too_large = WorkloadError(
        f"{os.fspath(path)}: is larger than {most:,.0f} bytes; if you have the memory, try --max-size, or "
        "desim.reading.limits in Python"
    )
    found = io.BytesIO()
    with open_binary(path) as file:
        if os.stat(path).st_size > most:  # noqa: PTH116  # packed or not
            raise too_large
        while part := file.read(BLOCK):
            found.write(part)
            if found.tell() > most:
                raise too_large
    return found.getvalue()


def chunks(path: Pathish, limit: Limits | None = None) -> Iterator[bytes]:
    """Yield consecutive parts of a file, split at arbitrary bytes; errors are those of `open_binary`."""
    with open_binary(path, limit) as file:
        while data := file.read(BLOCK):
            yield data


def line_blocks(path: Pathish, parts: Iterable[bytes], num_lines: int = 4096) -> Iterator[tuple[int, bytes]]:
    """Split consecutive parts of a file into blocks of whole lines, in constant memory.

    Parameters
    ----------
    path : str or path-like
        The file, for messages.
    parts : iterable of bytes
        Parts of the file, for example from `chunks`. Lines end by a line feed, a carriage return, or both; a byte
        order mark at the beginning is left out.
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
    for part in _with_line_feeds(parts):
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


def _with_line_feeds(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a text with line feeds as line ends, and without a byte order mark."""
    begins, is_open = True, False  # whether the last part ended by a carriage return, which a line feed may follow
    for part in parts:
        text = part.removeprefix(codecs.BOM_UTF8) if begins else part
        begins = False
        if is_open:
            text = b"\r" + text
        if is_open := text.endswith(b"\r"):
            text = text[:-1]
        yield text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text
    if is_open:
        yield b"\n"


def read_text(path: Pathish) -> str:
    """Return the content of a text file, with line feeds as line ends, and without a byte order mark.

    Parameters
    ----------
    path : str or path-like
        File in UTF-8, or in UTF-16 with a byte order mark, as some programs under Windows write it.

    Raises
    ------
    WorkloadError
        As in `read_bytes`, and for bytes that are not text; the message names line and column.
    """
    content = read_bytes(path)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise WorkloadError(
            f"{os.fspath(path)}: line {line}, column {column}: byte 0x{content[error.start]:02x} is not "
            f"{'UTF-16' if wide else 'UTF-8'} text"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_json(path: Pathish) -> Any:
    """Return the content of a JSON file.

    Parameters
    ----------
    path : str or path
        File.

    Raises
    ------
    WorkloadError
        As in `read_text`, and if it is not JSON, has a number that is not finite, or is nested too deeply; the message
        names line and column.
    """
    return parse_json(os.fspath(path), read_text(path))


def parse_json(source: str, text: str) -> Any:
    """Return the content of a JSON text; `source` is its name for messages. Errors are those of `read_json`."""

    def refuse(constant: str) -> NoReturn:
        """Refuse a number that is not finite."""
        raise WorkloadError(f"{source}: got {constant}, expected finite numbers")

    _check_depth(source, text, _CURRENT.get().depth)
    try:
        return json.loads(text, parse_constant=refuse)
    except WorkloadError:
        raise
    except (ValueError, RecursionError) as error:  # a limit above that of Python's stack
        raise WorkloadError(f"{source}: is not JSON: {error}") from error


def _check_depth(source: str, text: str, most: int) -> None:
    """Raise an error if brackets are nested too deeply, before a parser follows them."""
    depth = deepest = 0
    for start in range(0, len(text), BLOCK):  # brackets in strings count, too, which is seldom wrong
        codes = np.frombuffer(text[start : start + BLOCK].encode("utf-8", "surrogatepass"), np.uint8)
        depths = np.cumsum(_STEPS[codes], dtype=np.int64) + depth
        depth, deepest = int(depths[-1]), max(deepest, int(depths.max()))
    depth = 0
    for token in _TOKEN.finditer(text) if deepest > most else ():
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > most:
            line, column = text.count("\n", 0, token.start()) + 1, token.start() - text.rfind("\n", 0, token.start())
            raise WorkloadError(
                f"{source}: line {line}, column {column}: nested too deeply, expected at most {most} levels"
            )


def parse_yaml(source: str, text: str) -> Any:
    """Return the content of a YAML text, without aliases and nested within the limit.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    text : str
        Its content.

    Raises
    ------
    WorkloadError
        If it is anything else; the message names line and column.
    """
    import yaml

    loader: Any = None
    try:
        loader = _yaml_loader()(text)
        return loader.get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: of integers with thousands of digits
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise WorkloadError(f"{source}: is not a YAML file: {where}{' '.join(problem.split())}") from error
    finally:
        if loader is not None:
            loader.dispose()


def _yaml_loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
        """Loader without aliases, and with a bound of the depth."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent):
                raise yaml.composer.ComposerError(None, None, "got an alias, expected none", event.start_mark)
            if self.depth >= (most := _CURRENT.get().depth):
                problem = f"nested deeper than {most} levels"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except yaml.YAMLError:
                raise
            except Exception as error:  # of the constructors of dates, numbers and so on
                got = f"got {node.value!r:.40}: " if isinstance(node.value, str) else ""
                problem = f"{got}{error}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    return Loader


def read_parquet(path: Pathish) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the table in a Parquet file and its metadata.

    The number of rows is compared with the limits before memory is taken: equal rows take nearly no space in the file.

    Parameters
    ----------
    path : str or path
        File.

    Raises
    ------
    WorkloadError
        As in `read_bytes`, and if it is not a Parquet file or has too many rows.
    """
    import polars as pl

    source = os.fspath(path)
    content = read_bytes(path)
    known = _CURRENT.get()
    try:
        rows = pl.scan_parquet(io.BytesIO(content)).select(pl.len()).collect().item()
        size = 8 * rows * max(1, len(pl.read_parquet_schema(io.BytesIO(content))))
        if size > min(known.size, max(UNSUSPICIOUS, known.ratio * len(content))):
            raise WorkloadError(
                f"{source}: has {rows:,} rows in {len(content):,} bytes, expected fewer; if you trust it, try "
                "--max-size, or desim.reading.limits in Python"
            )
        metadata = pl.read_parquet_metadata(io.BytesIO(content))
        table = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise WorkloadError(f"{source}: is not a Parquet file: {' '.join(str(error).split())}") from error
    texts = sum(table[name].str.len_bytes().sum() for name, kind in table.schema.items() if kind == pl.String)
    if texts > known.size:  # cells can share one long text
        raise WorkloadError(f"{source}: has texts of {texts:,} bytes, expected at most {known.size:,.0f}")
    return table, metadata
