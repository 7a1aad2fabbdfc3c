"""``desim fetch``: download public logs and workflows by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from desim import plugins
from desim.checks import check_choice
from desim.cli.output import print_text
from desim.exceptions import InvalidConfiguration
from desim.notes import print_note

__all__ = ["Fetch"]


@dataclass(frozen=True)
class Fetch:
    """Download public logs and workflows into your cache, and check them.

    Examples::

        desim list workloads
        desim fetch KTH-SP2 NASA-iPSC
        desim run batch --trace KTH-SP2 --agent easy

    The option --trace then takes the name in place of a path. Files are in the directory that the environment variable
    DESIM_CACHE names, by default in ~/.cache/desim. What is there is not downloaded again, and a file that you put
    there yourself serves as well.
    """

    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME", help_behavior_hint="(required)")] = ()
    """Names from `desim list workloads`."""
    force: bool = False
    """Download again what is already there."""

    def execute(self) -> int:
        """Download, check, and print where the files are and whom to cite."""
        catalogue = plugins.catalogue()
        known = catalogue.entries()
        if not self.names:
            raise InvalidConfiguration("NAME is missing: expected a name; `desim list workloads` shows them")
        for name in self.names:
            check_choice("NAME", name, known)
        for name in self.names:
            entry = known[name]
            if self.force or entry.path is None:
                print_note(f"desim: downloading {entry.url}")
            path = catalogue.fetch(name, force=self.force)
            content = entry.check(path)
            print_text(f"{name}: {path}", "bold")
            print_text(f"  content: {content.size:,} bytes, {content.rows:,} lines without comments")
            checked = "as in the catalogue" if entry.sha256 else "not in the catalogue, so the header was checked"
            print_text(f"  sha256: {content.sha256}, {checked}")
            for what in ("source", "citation", "licence", "oddities"):
                if text := getattr(entry, what):
                    print_text(f"  {what}: {text}")
            if differences := entry.differences(content):
                print_note(f"desim: {name}: {differences}")
        return 0
