"""XML as a tree whose elements know their lines; documents that define entities are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from desim.exceptions import WorkloadError

__all__ = ["Element", "parse_xml"]

_DEEPEST = 100


@dataclass
class Element:
    """An element.

    Parameters
    ----------
    tag : str
        Its name without the namespace.
    attributes : mapping of str to str
        As in the file.
    line : int
        The line on which it begins, from 1.
    text : str
        The text directly in it.
    children : list of Element
        In the order of the file.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def named(self, tag: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.tag == tag)


def parse_xml(source: str, content: bytes) -> Element:
    """Return the root element of a document.

    Parameters
    ----------
    source : str
        Name of the file, for messages.
    content : bytes
        What the file holds.

    Returns
    -------
    Element
        With all that is below.

    Raises
    ------
    WorkloadError
        If it is no XML, is nested too deeply, or has a document type declaration: only there can entities be defined
        that blow up a small file.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    top = Element("", {}, 0)
    path = [top]

    def refuse_doctype(*_: object) -> NoReturn:
        raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: has a document type declaration, want none")

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > _DEEPEST:
            raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: is nested too deeply")
        element = Element(name.rpartition(" ")[2], attributes, parser.CurrentLineNumber)
        path[-1].children.append(element)
        path.append(element)

    def end(_: str) -> None:
        path.pop()

    def characters(text: str) -> None:
        path[-1].text += text

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(content, True)
    except WorkloadError:
        raise
    except expat.ExpatError as error:
        raise WorkloadError(f"{source}: line {error.lineno}: is not XML: {expat.ErrorString(error.code)}") from error
    except (LookupError, ValueError) as error:  # an encoding that is unknown, or none for text
        raise WorkloadError(f"{source}: line {parser.CurrentLineNumber}: is not XML: {error}") from error
    return top.children[0]
