"""Settings by name on the command line: ``--set name=value``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from desim.exceptions import InvalidConfiguration

__all__ = ["settings_of"]


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return settings by name.

    Parameters
    ----------
    texts : iterable of str
        Such as ``"slack=4"``. The value is a number, a list, true, false or none as Python or JSON writes them;
        anything else is text.

    Returns
    -------
    dict
        In the order of the names.

    Raises
    ------
    InvalidConfiguration
        If one is not written so, or a name is given twice.

    Examples
    --------
    >>> settings_of(["slack=4", "cores=[1, 2]", "model=fast"])
    {'cores': [1, 2], 'model': 'fast', 'slack': 4}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not is_given or not name.isidentifier():
            raise InvalidConfiguration(f"--set {text}: want NAME=VALUE")
        if name in found:
            raise InvalidConfiguration(f"--set {text}: {name} is given twice")
        found[name] = _value(value.strip())
    return dict(sorted(found.items()))


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return list(value) if isinstance(value, tuple) else value
