"""Pages keep all their blocks on GitHub, which shows them by plain docutils, without Sphinx."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation import DOCS, PAGES, ROOT, read
from docutils import nodes
from docutils.core import publish_doctree
from markdown_it import MarkdownIt

#: How GitHub calls docutils, but for the messages, which it hides together with what they are about.
SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 2,  # warnings and errors
    "halt_level": 5,
    "warning_stream": False,
    "syntax_highlight": "none",
}
BLOCK = re.compile(r"^ *\.\. code-block::", re.M)
LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")
#: The contents of the built documentation, which no page shows, and tables that only the code has.
CONTENTS = re.compile(r"^\.\. toctree::\n   :hidden:\n(?:[ ]+.*\n|\n)*", re.M)
TABLES = re.compile(r"^\.\. [\w-]+-table::(?: \w+)?\n", re.M)
GUIDES = [page for page in PAGES if page.parent in (DOCS, DOCS / "guides", DOCS / "background", DOCS / "reproductions")]


def linked_by_the_readme() -> list[Path]:
    """Return the pages and texts that the README names, which people read on GitHub."""
    files = (ROOT / target for target in LINK.findall(read(ROOT / "README.md")) if not target.startswith("https:"))
    return sorted({file for file in files if file.suffix in (".rst", ".md")})


def shown(text: str) -> nodes.document:
    return publish_doctree(text, settings_overrides=SETTINGS)


def troubles(document: nodes.document) -> list[str]:
    """Return what GitHub leaves out or shows as it is written: unknown directives, roles and references."""
    given = [*document.findall(nodes.system_message), *document.transform_messages]
    messages = [message.astext() for message in given if message["level"] >= SETTINGS["report_level"]]
    names = [node.astext() for node in document.findall(nodes.title_reference)]
    return messages + [name for name in names if re.search(r"[<>~!]", name)]


def blocks(document: nodes.document) -> int:
    return sum("code" in node["classes"] for node in document.findall(nodes.literal_block))


def links(document: nodes.document) -> list[str]:
    targets = [node.get("refuri", "") for node in document.findall(nodes.reference)]
    return [target.partition("#")[0] for target in targets if target and ":" not in target]


def test_readme_names_the_pages_for_github() -> None:
    names = {file.relative_to(ROOT).as_posix() for file in linked_by_the_readme()}
    assert {"docs/installation.rst", "docs/tour.rst", "docs/tutorial.rst", "docs/limits.rst", "CHANGELOG.md"} <= names
    assert {"docs/background/order_search.rst", "docs/reproductions/index.rst", "docs/guides/write_agent.rst"} <= names
    assert {"CONTRIBUTING.md", "ARCHITECTURE.md"} <= names


@pytest.mark.parametrize(
    "page",
    sorted({*GUIDES, *(file for file in linked_by_the_readme() if file.suffix == ".rst")}),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_github_shows_every_block_of_a_page(page: Path) -> None:
    text = CONTENTS.sub("", read(page))
    document = shown(text if page in linked_by_the_readme() else TABLES.sub("", text))
    assert troubles(document) == []
    assert blocks(document) == len(BLOCK.findall(text))
    assert [target for target in links(document) if not (page.parent / target).exists()] == []
    assert [image["uri"] for image in document.findall(nodes.image) if not (page.parent / image["uri"]).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_github_shows_every_block_of_a_text(name: str) -> None:
    text = read(ROOT / name)
    fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert 2 * len(fences) == len(re.findall(r"^```", text, re.M))
    assert not [token.info for token in fences if token.info not in ("", "console", "python", "text")]
    assert [target for target in LINK.findall(text) if ":" not in target and not (ROOT / target).exists()] == []


def test_what_github_leaves_out_is_found() -> None:
    document = shown(
        "See :doc:`tour`, `a name <desim.simulate>` and [1997]_.\n\n.. testcode::\n\n   1\n\n"
        ".. code-block:: python\n   :caption: two\n\n   2\n\n.. code-block:: python\n\n   3\n"
    )
    assert len(troubles(document)) == 5
    assert blocks(document) == 1
