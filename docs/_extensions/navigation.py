"""The tree of pages at the side: made once for each directory, and marked for each page.

The theme makes and parses the whole tree anew for every page. Within a directory trees differ only in what is marked:
the link of the page, the items and lists around it, and the boxes that keep these open.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import furo

__all__ = ["setup"]

TAG = re.compile(r"</?(?:ul|li)\b[^>]*>|<input [^>]*>")

_trees: dict[str, str] = {}


def _tree(context: dict[str, Any], whole: Any = furo._compute_navigation_tree) -> str:
    directory, _, name = f"/{context['pagename']}".rpartition("/")
    if directory not in _trees:
        _trees[directory] = _unmarked(whole(context), name)
    return _marked(_trees[directory], name)


def _unmarked(tree: str, name: str) -> str:
    tree = tree.replace('"current reference internal" href="#"', f'"reference internal" href="{name}.html"')
    tree = tree.replace('<ul class="current">', "<ul>").replace(' checked=""', "")
    return re.sub(r" current(-page)?(?=[ \"])", "", tree)


def _marked(tree: str, name: str) -> str:
    link = f'"reference internal" href="{name}.html"'
    at = tree.find(link)
    if at < 0:  # a page outside the tree, such as the index of names
        return tree
    around: list[list[re.Match[str]]] = []
    for tag in TAG.finditer(tree):
        if tag.start() > at and not tag[0].startswith("<input"):
            break
        if tag[0].startswith("</"):
            around.pop()
        elif tag[0].startswith("<input"):
            around[-1].append(tag)
        else:
            around.append([tag])
    last = around[-1][0]
    edits = {(at, at + len(link)): '"current reference internal" href="#"'}
    for tag in itertools.chain.from_iterable(around):
        text = (
            tag[0].replace("<ul>", '<ul class="current">').replace(' class="toctree-c', ' checked="" class="toctree-c')
        )
        text = re.sub(r"(toctree-l\d)", r"\1 current", text)
        edits[tag.span()] = text.replace('">', ' current-page">') if tag is last else text
    for (begin, end), text in sorted(edits.items(), reverse=True):
        tree = tree[:begin] + text + tree[end:]
    return tree


def setup(app: object) -> None:
    """Replace the function of the theme."""
    furo._compute_navigation_tree = _tree
