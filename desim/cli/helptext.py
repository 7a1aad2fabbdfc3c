"""Help texts from docstrings without reST markup and empty defaults, and plain messages about numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Annotated, Any, get_args

__all__ = ["plain_help", "plain_text"]

ROLE = re.compile(r":(?:\w+:)?\w+:`(~?)([^`<]+?)(?:\s*<[^`>]*>)?`")
"""A role such as a reference to a class, with the tilde that shortens its target and the text or target."""

#: What an option of each type expects.
NUMBERS: dict[type[Any], str] = {int: "an integer", float: "a number"}


def plain_text(text: str) -> str:
    r"""Return a docstring as plain text.

    Parameters
    ----------
    text : str
        Docstring, or a part of it.

    Returns
    -------
    str
        Text in which roles are replaced by their text, and literals and literal blocks by what they hold.

    Examples
    --------
    >>> print(plain_text("Reward, see :class:`~desim.envs.Reward`, or ``module:name``::\n\n    mine:reward"))
    Reward, see Reward, or module:name:
        mine:reward
    """
    text = ROLE.sub(lambda found: found[2].rpartition(".")[2] if found[1] else found[2], text)
    return re.sub(r"``(.+?)``", r"\1", text, flags=re.DOTALL).replace("::\n\n", ":\n")


def plain_help() -> Any:
    """Return a context in which the parser of the command line shows plain help texts and messages.

    Returns
    -------
    tyro.constructors.ConstructorRegistry
        Registry that changes texts only; values are parsed as without it.
    """
    from tyro.constructors import (
        ConstructorRegistry,
        PrimitiveConstructorSpec,
        PrimitiveTypeInfo,
        StructConstructorSpec,
        StructTypeInfo,
    )

    registry = ConstructorRegistry()
    inner: list[Any] = []

    @registry.struct_rule
    def plain(info: StructTypeInfo) -> StructConstructorSpec | None:
        """Return the usual rule of a dataclass, with plain help texts."""
        if info.type in inner or not is_dataclass(info.type):
            return None
        inner.append(info.type)
        try:
            usual = ConstructorRegistry.get_struct_spec(info)
        finally:
            inner.pop()
        if not isinstance(usual, StructConstructorSpec):
            return None
        return replace(usual, fields=tuple(_plain_field(one) for one in usual.fields))

    @registry.primitive_rule
    def number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        """Return a rule for an integer or a number, or None, that says what it expected."""
        kinds = [kind for kind in get_args(info.type) or [info.type] if kind is not type(None)]
        if len(kinds) != 1 or kinds[0] not in NUMBERS:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=kinds[0].__name__.upper(),
            instance_from_str=partial(_number, kinds[0]),
            is_instance=lambda value: value is None or isinstance(value, int | float),
            str_from_instance=lambda value: [str(value)],
        )

    return registry


def _number(kind: type[int] | type[float], words: list[str]) -> int | float:
    """Return the number that a word stands for."""
    try:
        return kind(words[0])
    except ValueError:
        raise ValueError(f"got {words[0]!r}, expected {NUMBERS[kind]}") from None


def _plain_field(field: Any) -> Any:
    """Return a field with a plain help text, which says itself what an empty default means."""
    from tyro.conf import arg

    field = replace(field, helptext=_plain_lazily(field.helptext))
    kind, *extras = get_args(field.type) or [field.type]
    if is_dataclass(kind) or any(getattr(one, "help_behavior_hint", None) for one in extras):
        return field
    return replace(field, type=Annotated[field.type, arg(help_behavior_hint=_hint)])


def _hint(default: str) -> str:
    """Return how a default is shown, nothing if it is empty."""
    return f"(default: {default})" if default not in ("", "None") else ""


def _plain_lazily(helptext: str | Callable[[], str | None] | None) -> Callable[[], str | None]:
    """Return a function of the plain help text, since docstrings are read only if help is asked for."""

    def text() -> str | None:
        given = helptext() if callable(helptext) else helptext
        return given and plain_text(given)

    return text
