"""What studies leave, and the reports that are made of it."""

from __future__ import annotations

import csv
import json
import re
import runpy
import shutil
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docutils.core import publish_doctree
from hypothesis import given
from hypothesis import strategies as st
from small_family import FAMILY
from small_family.first import First
from small_family.fourth import Fourth

from desim import plugins
from desim.cli import main
from desim.exceptions import InvalidConfiguration, RecordError
from desim.experiments.frame import FRAME_FILE, Frame
from desim.experiments.report import Chapter, write_documentation
from desim.experiments.report_blocks import (
    Cell,
    Drawing,
    Fault,
    Paragraph,
    Runs,
    Table,
    print_block,
    restored,
    short,
    stored,
    with_interval,
)
from desim.experiments.study import ACCOUNT_FILE, Account, description_of, run_as_program
from desim.statistics import Estimate
from desim.sweep import Workers

NAN = float("nan")
EXTENSIONS = Path(__file__).parents[2] / "docs" / "_extensions"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a family of which one study was run, two have failed, and one is left."""
    out = tmp_path_factory.mktemp("small")
    assert FAMILY.reproduce(["--seeds", "4"], out=out, only=["first", "second", "third"]) == 1
    return out


# -- blocks ---------------------------------------------------------------------------------------


def test_blocks_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("Waiting & more", ["agent", "waiting\ntime, s"], [["FCFS <1>", Cell("12", bold=True)]])
    for block in (Paragraph("Begins."), table, Fault("Not valid."), Runs("first", 2, 3, 61.0)):
        print_block(block)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Begins.", "Waiting & more"]
    assert ["FCFS", "<1>", "12"] in [line.split() for line in lines]
    assert lines[-1] == "Not valid."


def test_blocks_come_back_from_plain_values() -> None:
    table = Table("t", ["", "a"], [["x", Cell("1", bold=True, warn=True)]], (1,), folded="more")
    for block in (table, Paragraph("a", warn=True), Runs("first", 2, 3, 61.0), Drawing("a.png", "A.")):
        assert restored(json.loads(json.dumps(stored(block)))) == (
            block if not isinstance(block, Table) else replace(table, rows=[list(table.rows[0])], words=[1])
        )


def test_numbers_have_four_digits_and_come_with_their_intervals() -> None:
    numbers = {None: "–", NAN: "–", 0.0: "0", 2886.33: "2,886", 12.3456: "12.35", 0.0123: "0.0123", -3.0: "-3.000"}
    assert {number: short(number) for number in numbers} == numbers
    assert with_interval(Estimate(3104.98, 20.4, 10, 0.95)) == "3,105 ± 20"
    assert with_interval(Estimate(11.333, 0.666, 10, 0.95), digits=2) == "+11.33 ± 0.67"
    assert with_interval(Estimate(5.0, NAN, 1, 0.95)) == "5.000"
    assert with_interval(Estimate(NAN, NAN, 2, 0.95)) == with_interval(None) == "–"


# -- accounts -------------------------------------------------------------------------------------


def test_account_tells_how_the_study_was_run_and_what_it_has_shown(results: Path) -> None:
    account = Account.read(results / "first")
    assert account.name == "first"
    assert account.title == "Measures two rows in two columns, and shows a table and a picture."
    assert account.options == {"quick": False, "seeds": 4, "jobs": 2, "size": 3}
    kinds = [type(block) for block in account.blocks]
    assert kinds == [Runs, Paragraph, Table, Table, Drawing]
    assert [block.text for block in account.blocks if isinstance(block, Paragraph)] == ["Begins."]
    assert account.blocks[2].cells[1][1].bold and not account.blocks[2].cells[0][1].bold
    assert account.code["desim"] and account.code["digest"] and account.machine["numpy"] == np.__version__
    assert account.seconds > 0 and not account.error
    failed = Account.read(results / "second")
    assert failed.error == "a run has failed"
    assert failed.blocks == [Paragraph("half")]
    frame = Frame.read(results / "first" / FRAME_FILE)
    assert frame.panels == ["load", "load, 1 by job", "load, 2 by job"]
    assert frame.values("load", "2", "SJF | *2*", "wait").tolist() == [16.0, 17.0, 18.0, 19.0]


def test_account_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=f"{tmp_path}: no {ACCOUNT_FILE}"):
        Account.read(tmp_path)
    for text in ("", "{", "[]", '{"module": 1}', '{"blocks": [{"kind": "unheard-of"}]}'):
        (tmp_path / ACCOUNT_FILE).write_text(text)
        with pytest.raises(RecordError, match=f"{ACCOUNT_FILE} cannot be read"):
            Account.read(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"module": "small_family./etc"}, {"blocks": [{"kind": "drawing", "file": "../secret.png", "caption": ""}]}],
)
def test_account_names_only_what_lies_beside_it(results: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    document = json.loads((results / "first" / ACCOUNT_FILE).read_text())
    (tmp_path / ACCOUNT_FILE).write_text(json.dumps(document | change))
    with pytest.raises(RecordError, match="expected a plain name"):
        Account.read(tmp_path)


def test_a_study_of_ones_own_is_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "mine.py"
    program.write_text(
        '"""What is mine."""\nimport sys\nfrom dataclasses import dataclass\n'
        "from desim.experiments.report_blocks import Paragraph\n"
        "from desim.experiments.study import Study, run_as_program\n"
        "@dataclass(frozen=True)\nclass Mine(Study):\n    def blocks(self):\n        yield Paragraph('done')\n"
        "if __name__ == '__main__':\n    sys.exit(run_as_program(Mine))\n"
    )
    monkeypatch.setattr(sys, "argv", ["mine.py", "--out", str(tmp_path / "out")])
    monkeypatch.syspath_prepend(tmp_path)  # as Python does with the directory of a program
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(str(program), run_name="__main__")
    assert (exit_.value.code, capsys.readouterr().out) == (0, "done\n")
    account = Account.read(tmp_path / "out")
    assert (account.module, account.title) == ("mine", "What is mine.")


def test_account_that_cannot_be_written_does_not_hide_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / ACCOUNT_FILE).mkdir(parents=True)
    assert run_as_program(First, ["--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "Begins." in printed.out
    assert ACCOUNT_FILE in printed.err


def test_exit_status_tells_how_it_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as leave:
        run_as_program(Fourth, ["--seeds", "0"])
    assert leave.value.code == 2
    assert "seeds: got 0, expected an integer >= 1" in capsys.readouterr().err
    assert run_as_program(Fourth, ["--seeds", "3", *out]) == 1
    assert capsys.readouterr().err == "interrupted: 2 of 5 runs are stored\n"
    assert run_as_program(Fourth, ["--seeds", "5", *out]) == 2
    assert capsys.readouterr().err == "error: density is 0\n"
    assert not (tmp_path / "out").exists()
    assert run_as_program(Fourth, ["--seeds", "7", *out]) == 1


def test_settings_are_parsed_and_say_where_files_go(tmp_path: Path) -> None:
    assert First().workers == Workers(2, "local", None)
    assert First().directory == Path("results/studies/first")
    assert First().runs.directory == Path("results/studies/runs")
    assert First(out=tmp_path / "here").runs.directory == tmp_path / "runs"
    assert First(out=tmp_path / "here", store=tmp_path / "s").runs.directory == tmp_path / "s"
    assert (First(seeds=3).seed_list, First(seeds=3, quick=True).seed_list) == ([0, 1, 2], [0, 1])
    with pytest.raises(SystemExit, match="2"):
        run_as_program(First, ["--address", "tcp://a:1"])  # of a cluster, which local processes have none of


def test_description_is_the_first_line_without_an_import() -> None:
    wanted = "Table 1: utilization, time delay and total reward of the paper's rules and of its agents as printed."
    assert description_of("desim.experiments.osdec.table1") == wanted
    assert description_of("no_such_module") == ""


# -- a whole family -------------------------------------------------------------------------------


def test_studies_that_fail_do_not_keep_the_others_from_being_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FAMILY.reproduce([], out=tmp_path) == 1
    printed = capsys.readouterr()
    assert "end" in printed.out.splitlines()  # of the fourth
    assert "error: a run has failed" in printed.err
    assert "ZeroDivisionError: in the program" in printed.err
    assert {path.parent.name for path in tmp_path.glob(f"*/{ACCOUNT_FILE}")} == {"first", "second", "third", "fourth"}


def test_ctrl_c_ends_all_and_leaves_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        FAMILY.reproduce(["--seeds", "3"], out=tmp_path, only=["first", "fourth"])
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "fourth" / ACCOUNT_FILE).exists()


def test_unusable_arguments_end_it_at_once(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        FAMILY.reproduce(["--seeds", "many"], out=tmp_path)
    with pytest.raises(
        InvalidConfiguration,
        match=r"unknown experiment 'fifth' of small \(did you mean 'first'\?\); expected one of first",
    ):
        FAMILY.reproduce([], out=tmp_path, only=["fifth"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidConfiguration, match=r"no experiment of .* has results"):
        FAMILY.report(tmp_path)


class Page(HTMLParser):
    """Takes a page apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.targets += [str(found[name]) for name in ("src", "href") if name in found]
        self.ids += [str(found["id"])] if "id" in found else []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_page_holds_everything_and_needs_no_other_file(results: Path) -> None:
    page = Page((results / "report.html").read_text())
    words = "\n".join(page.words)
    for text in ("Waiting & more", "FCFS <1>", "SJF | *2*", "waiting time, s", "Nobody, <never>.", "A line."):
        assert text in words
    for target in page.targets:
        assert target.startswith("data:image/png;base64,") or target.removeprefix("#") in page.ids
    assert sum(target.startswith("data:") for target in page.targets) == 1
    assert "3 experiments with 16 runs, which took" in words
    assert "second has failed: a run has failed" in words
    for text in ("FCFS waits longer than SJF, s", "reproduced in order only", "Half of it.", "matches within 5 %"):
        assert text in words
    assert words.index("FCFS waits longer") < words.index("matches within") < words.index("Begins.")
    assert "third has failed: ZeroDivisionError: in the program" in words
    assert "Not run: fourth." in words
    assert "cannot be compared" not in words


def test_trial_gives_no_verdicts(tmp_path: Path) -> None:
    assert FAMILY.reproduce(["--quick"], out=tmp_path, only=["first"]) == 0
    words = "\n".join(Page((tmp_path / "report.html").read_text()).words)
    assert "it gives no verdicts" in words
    assert "reproduced" not in words and "matches within" not in words


def test_report_is_made_anew_of_what_is_there_and_misses_nothing_silently(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(results, copy)
    before = (copy / "report.html").read_bytes()
    assert FAMILY.report(copy).read_bytes() == before
    (copy / "first" / "line.png").unlink()
    assert "first/line.png is missing" in FAMILY.report(copy).read_text()
    tree = publish_doctree(FAMILY.documentation(tmp_path / "small.rst", copy).read_text(encoding="utf-8"))
    assert "The picture first/line.png is missing." in tree.astext()
    assert not list(tree.findall(lambda node: node.tagname == "image"))
    titles = [tree.astext().split("\n")[0]]
    for name in ("second", "third"):
        shutil.rmtree(copy / name)
    titles.append(FAMILY.documentation(tmp_path / "alone.rst", copy).read_text(encoding="utf-8").split("\n")[0])
    assert titles == [f"{FAMILY.title}: results", f"{FAMILY.title}: first: results"]


def test_settings_tell_no_place_of_the_machine(results: Path) -> None:
    account = replace(FAMILY.accounts(results)[0], options={"data": str(results), "seeds": 4})
    texts = [
        block.text
        for chapter in FAMILY.chapters([account], {})
        for block in chapter.blocks
        if isinstance(block, Paragraph)
    ]
    assert f"Settings: data .../{results.name}, seeds 4." in texts
    assert str(results) not in " ".join(texts)


def test_page_of_the_documentation_is_sound_markup_and_says_the_same(results: Path, tmp_path: Path) -> None:
    runpy.run_path(str(EXTENSIONS / "folded.py"))["setup"](None)
    path = FAMILY.documentation(tmp_path / "small.rst", results)
    assert (tmp_path / "small" / "first-line.png").read_bytes() == (results / "first" / "line.png").read_bytes()
    settings = {"report_level": 1, "halt_level": 1}
    tree = publish_doctree(path.read_text(), source_path=str(path), settings_overrides=settings)
    text = unescape(tree.astext())
    shown = ("FCFS <1>", "SJF | *2*", "Waiting & more", "reproduced in order only", "Nobody, <never>.")
    assert [part for part in shown if part not in text] == []
    assert [image["uri"] for image in tree.findall(lambda node: node.tagname == "image")] == ["small/first-line.png"]
    beside = Frame.read(tmp_path / "small" / "first.csv")
    assert beside.data.equals(Frame.read(results / "first" / FRAME_FILE).without_curves().data)


def test_folded_tables_are_files_with_every_value(tmp_path: Path) -> None:
    rows = [['a, "b" | *c*', "1 ± 2"], ["`d`", "–"]]
    tables = [Table("Of *all*", ["agent", "waiting\ntime"], rows, folded=f"Fold <{number}>_") for number in range(3)]
    path = write_documentation("Title", [Chapter("x", "Chapter", tables)], tmp_path, tmp_path / "page.rst")
    names = ["x-of-all.csv", "x-of-all.2.csv", "x-of-all.3.csv"]
    assert sorted(file.name for file in (tmp_path / "page").iterdir()) == sorted(names)
    with (tmp_path / "page" / names[2]).open(newline="") as file:
        assert list(csv.reader(file)) == [["agent", "waiting time"], *rows]
    runpy.run_path(str(EXTENSIONS / "folded.py"))["setup"](None)
    tree = publish_doctree(path.read_text(), source_path=str(path), settings_overrides={"halt_level": 1})
    raw = [node.astext() for node in tree.findall(lambda node: node.tagname == "raw")]
    opening, folded = raw[::3], raw[1::3]
    assert opening == [f'<details class="folded"><summary>Fold &lt;{number}&gt;_</summary>' for number in range(3)]
    cells = [unescape(cell) for table in folded for cell in re.findall(r"<t[hd]><p>(.*?)</p></t[hd]>", table)]
    assert cells == ["agent", "waiting time", rows[0][0], "1\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}2", "`d`", "–"] * 3


def test_figures_of_a_study_come_first_and_its_tables_fold(results: Path) -> None:
    account = Account.read(results / "first")
    told = [Paragraph("x"), Table("t", ["a"], [["1"], ["2"]])]
    blocks = [*told, Drawing("line.png", "A line.")]
    [chapter] = [part for part in FAMILY.chapters([replace(account, blocks=blocks)], {}) if part.name == "first"]
    _, drawing, text, table = chapter.blocks
    assert isinstance(drawing, Drawing) and text == Paragraph("x")
    assert isinstance(table, Table) and table.folded == "t (2 rows)"
    [chapter] = [part for part in FAMILY.chapters([replace(account, blocks=told)], {}) if part.name == "first"]
    assert chapter.blocks[-1] == told[1]


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=30))
def test_any_text_stays_itself_in_the_documentation(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    plain = " ".join(text.split())
    path = tmp_path_factory.getbasetemp() / "any.rst"
    write_documentation("Title", [Chapter("x", "Chapter", [Paragraph("x"), Paragraph(plain)])], path.parent, path)
    tree = publish_doctree(path.read_text(encoding="utf-8"), settings_overrides={"report_level": 5})
    assert " ".join(tree.astext().split()) == " ".join(f"Title: results Chapter x {plain}".split())


# -- the command line -----------------------------------------------------------------------------


def test_all_papers_are_listed_with_their_studies(capsys: pytest.CaptureFixture[str]) -> None:
    families = plugins.experiment_families()
    assert list(families) == ["bihyb", "dbf", "jobshop", "lachesis", "ogasched", "openb", "osdec"]
    assert main(["reproduce", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    for name, family in families.items():
        assert list(listed[name]["experiments"]) == list(family.modules)
        assert all(re.fullmatch(r"[A-Z].*\.", text) for text in listed[name]["experiments"].values())
    assert main(["reproduce", "osdec", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "osdec table1" in printed
    assert "lachesis" not in printed


def test_study_is_run_with_its_own_options_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "lachesis"
    places = ["--out", str(out / "figure6"), "--store", str(out / "runs")]
    assert main(["reproduce", "lachesis", "figure6", "--quick", *places]) == 0
    assert main(["reproduce", "lachesis", "--report", "--out", str(out), "--page", str(tmp_path / "page.rst")]) == 0
    assert "LACHESIS" in (out / "report.html").read_text()
    assert (tmp_path / "page" / "figure6-figure6_lachesis.png").exists()
    capsys.readouterr()
    assert main(["reproduce", "lachesis", "figure7", "--help"]) == 0
    assert "--ccr" in capsys.readouterr().out
    wanted = ["--quick", "--only", "figure6", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "lachesis", *wanted]) == 0
    assert f"report: {tmp_path / 'report.html'}" in capsys.readouterr().out
    assert Frame.read(tmp_path / "figure6" / FRAME_FILE).panels


def test_reproduce_runs_all_papers_each_in_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(FAMILY, name="other", modules=("first",))
    monkeypatch.setattr(plugins, "experiment_families", lambda: {"other": other, "small": FAMILY})
    assert main(["reproduce", "all", "--only", "fourth", "--out", str(tmp_path / "some")]) == 0
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 1
    found = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob(ACCOUNT_FILE)}
    small = {f"small/{name}" for name in FAMILY.modules}
    assert found == {"some/small/fourth", "other/first", *small}
    assert capsys.readouterr().out.count(f"report: {tmp_path / 'other' / 'report.html'}") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["reproduce", "nothing"],
            "unknown paper 'nothing'; expected one of bihyb, dbf, jobshop, lachesis, ogasched, openb, osdec, all",
        ),
        (["reproduce", "osdec", "--only", "table9"], "no experiment table9: osdec has table1"),
        (
            ["reproduce", "osdec", "table9"],
            "unknown experiment 'table9' of osdec (did you mean 'table4'?); expected one of table1",
        ),
        (["reproduce", "nothing", "table1"], "unknown paper 'nothing'"),
        (["reproduce", "osdec", "--json"], "--json: has no effect without --list or --status"),
        (["reproduce", "osdec", "--page", "x.rst"], "--page: has no effect without --report"),
        (["reproduce", "osdec", "--report", "--out", "nowhere"], "no experiment of osdec has results in nowhere"),
        (["reproduce", "--status"], "PAPER and --store are missing"),
    ],
)
def test_unknown_names_are_refused_with_those_that_there_are(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
