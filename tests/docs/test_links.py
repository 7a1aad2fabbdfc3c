"""Links of the documentation and the README lead somewhere, and every page can be reached.

Short names of Python objects are not looked at here: ``make docs`` fails for those that Sphinx cannot find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from documentation import DOCS, EXAMPLES, PAGES, ROOT, SOURCES, is_there, read

LINK = re.compile(r"`[^`<]*<([^`>:]+\.(?:rst|py)|[^`>:]*examples)(?:#[^`>]*)?>`__")
NAME = re.compile(r"(?<![`:\w])`(desim\.[\w.]+)`(?![`_])")
ROLE = re.compile(r":(?:py:)?(\w+):`(?:[^`<]*<)?[~!]?([^`>]+)>?`")
TOCTREE = re.compile(r"^\.\. toctree::\n((?:[ ]+:.*\n)*)\n((?:[ ]+\S.*\n)+)", re.M)
URL = re.compile(r"\bhttps?:[^\s`'\"<>]*|\bwww\.[^\s`'\"<>]*")
PYTHON = ("class", "func", "meth", "mod", "data", "attr", "exc", "obj")
TEXTS = [*PAGES, *EXAMPLES, *SOURCES]


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def roles(path: Path, *names: str) -> list[str]:
    return [" ".join(target.split()) for role, target in ROLE.findall(read(path)) if role in names]


def linked_pages(page: Path) -> Iterator[str]:
    """Yield the pages that a page links to, as paths below the documentation's root."""
    for target in roles(page, "doc"):
        yield target.removeprefix("/") if target[0] == "/" else resolved(page, target)
    for target in LINK.findall(read(page)):
        path = resolved(page, " ".join(target.split()))
        yield (
            "auto_examples/index"
            if path == "examples"
            else path.replace("examples/", "auto_examples/").rpartition(".")[0]
        )


def pages_below(page: Path) -> Iterator[str]:
    """Yield the pages in the table of contents of a page."""
    for options, entries in TOCTREE.findall(read(page)):
        listed = [re.sub(r".*<(.*)>", r"\1", line.strip()) for line in entries.splitlines()]
        if ":glob:" in options:
            listed = [name_of(path) for pattern in listed for path in sorted(page.parent.glob(f"{pattern}.rst"))]
        yield from (resolved(page, entry) for entry in listed)


def resolved(page: Path, target: str) -> str:
    return (page.parent / target).resolve().relative_to(DOCS).as_posix()


def exists(page: str) -> bool:
    """Tell whether there is a page; those of the gallery are made of programs."""
    folder, _, name = page.removeprefix("auto_examples/").rpartition("/")
    if not page.startswith("auto_examples/"):
        return (DOCS / f"{page}.rst").exists()
    example = DOCS / "examples" / folder / ("GALLERY_HEADER.rst" if name == "index" else f"{name}.py")
    return example.exists()


def test_pages_that_are_linked_exist() -> None:
    links = {(name_of(page), target) for page in PAGES for target in (*linked_pages(page), *pages_below(page))}
    assert len(links) > 50
    assert sorted(link for link in links if not exists(link[1])) == []


def test_every_page_can_be_reached() -> None:
    in_contents = {target for page in PAGES for target in pages_below(page)}
    linked = {target for page in PAGES for target in linked_pages(page) if target != name_of(page)}
    orphans = {name_of(page) for page in PAGES if read(page).startswith(":orphan:")}
    assert {name_of(page) for page in PAGES} - in_contents - orphans == {"index"}
    assert orphans <= linked


def test_home_page_lists_every_guide() -> None:
    guides = {name_of(page) for page in PAGES if page.parent.name == "guides"}
    assert guides <= set(linked_pages(DOCS / "index.rst"))


def test_python_objects_that_are_named_in_full_exist() -> None:
    found = {
        (path, target.removesuffix("()"))
        for path in TEXTS
        for target in (*roles(path, *PYTHON), *(NAME.findall(read(path)) if path in PAGES else ()))
    }
    full = [(path, target) for path, target in found if target.split(".")[0] == "desim"]
    assert len(full) > 200
    assert sorted((path.name, target) for path, target in full if not is_there(target)) == []


def test_pictures_of_pages_are_made_by_an_example() -> None:
    for page in PAGES:
        for picture in re.findall(r"^ *\.\. (?:image|figure):: (\S+)", read(page), re.M):
            example = re.sub(r"auto_examples/(.*)/images/sphx_glr_(.*)_\d+\.png$", r"examples/\1/\2.py", picture)
            assert (page.parent / example).exists() or (DOCS / example.removeprefix("/")).exists(), (page, picture)


def test_sections_that_are_referred_to_exist() -> None:
    labels = {label for page in PAGES for label in re.findall(r"^\.\. _([^:`]+):$", read(page), re.M)}
    assert [(page, target) for page in PAGES for target in roles(page, "ref") if target not in labels] == []


def test_files_and_sections_that_the_readme_links_to_exist() -> None:
    text = read(ROOT / "README.md")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    headings = {
        re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)", prose, re.M)
    }
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if not target.startswith("https:")]
    assert targets
    for target in targets:
        file, _, section = target.partition("#")
        assert (ROOT / file).exists(), target
        assert not section or section in headings, target


def test_addresses_are_well_formed_and_encrypted() -> None:
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CITATION.cff", *TEXTS):
        for address in URL.findall(read(path)):
            assert is_good(address.rstrip(").,;:*")), (path, address)


def is_good(address: str) -> bool:
    parts = urlsplit(address)
    host = re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.hostname or "")
    return parts.scheme == "https" and host is not None and "//" not in parts.path


def test_what_is_wrong_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(
        "See :doc:`there <missing>`, `there <a.rst>`__, `desim.b`, ``desim.c``, :class:`~desim.Nothing` and\n"
        ":func:`two\nwords`; https://a.org/x.\n"
    )
    assert (roles(page, "doc"), roles(page, "class", "func")) == (["missing"], ["desim.Nothing", "two words"])
    assert (LINK.findall(read(page)), NAME.findall(read(page))) == (["a.rst"], ["desim.b"])
    assert not exists("missing") and not exists("auto_examples/batch/plot_missing")
    assert exists("auto_examples/index") and exists("auto_examples/batch/plot_policies")
    assert not is_there("desim.Nothing") and is_there("desim.Simulation.fork")
    assert [is_good(address) for address in URL.findall(read(page))] == [True]
    assert not any(map(is_good, ("http://a.org", "www.a.org", "https://a", "https://a.org//b", "https:/a.org")))
