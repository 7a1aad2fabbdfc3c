"""``desim fetch`` from a server on the loopback, and workloads by their name wherever a path is taken."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import HEADER, INTERRUPTIBLE, ROWS, Desim, swf_row

import desim as package
from desim.exceptions import DesimError, WorkloadError
from desim.sweep.recording import recording
from desim.workloads import catalogue, swf
from desim.workloads.alibaba import machines
from desim.workloads.batch import registry
from desim.workloads.catalogue import Entry
from desim.workloads.dag import registry as workflows

LOG = (HEADER + "; Computer: made up\n" + "\n".join(swf_row(*row) for row in ROWS) + "\n").encode()
OTHER = LOG.replace(b" 50 4 ", b" 55 4 ")
DIGEST = hashlib.sha256(LOG).hexdigest()
SHARED = Path("/work/shared/data")
#: Copies, with a known origin, of files whose digests the catalogue has.
COPIES = {
    "CERIT-SC": "swf/wagap-2013.swf.gz",
    "CERIT-SC-machines": "swf/wagap-2013.swf.machines",
    "Theta-train": "swf/theta-2018-train.swf.gz",
    "Theta-validate": "swf/theta-2018-validate.swf.gz",
    "Lublin-256": "swf/lublin_256.swf",
    "Philly": "gpu/philly.csv.gz",
    "1000Genome": "wfformat/1000genome-chameleon-2ch-100k-001.v1.4.json",
    "openb-nodes": "alibaba/openb_node_list_all_node.csv",
    "openb-gpu-nodes": "alibaba/openb_node_list_gpu_node.csv",
    "openb-pods": "alibaba/openb_pod_list_default.csv",
}
#: Copies of files without one, whose headers the catalogue knows.
SIMILAR = {
    "KTH-SP2": "swf/KTH-SP2-1996-2.swf",
    "NASA-iPSC": "swf/NASA-iPSC-1993-3.1-cln.swf",
    "Montage": "workflows/montage-chameleon-2mass-005d-001.json",
}


class Server(BaseHTTPRequestHandler):
    """Answers by the last part of the path; ``half`` is sent in part, and then nothing more until the client leaves."""

    half_is_sent: threading.Event

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        content = {
            "log.swf.gz": gzip.compress(LOG), "plain.swf": LOG, "other.swf": OTHER, "page.swf": b"<html>Sorry</html>",
            "broken.swf.gz": gzip.compress(LOG)[:-20], "cut.swf": LOG, "half.swf": LOG,
            "packed.swf": gzip.compress(LOG),
        }.get(name)  # fmt: skip
        self.send_response(200 if content is not None else 404)
        if content is None:
            self.end_headers()
            return
        if name == "packed.swf":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if name in ("cut.swf", "half.swf"):
            content = content[: len(content) // 2]
        self.wfile.write(content)
        self.wfile.flush()
        if name == "half.swf":
            self.half_is_sent.set()
            with suppress(OSError):
                self.connection.recv(1)  # returns when the client closes the connection

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a running server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Server.half_is_sent = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the cache, which does not exist yet."""
    monkeypatch.setenv("DESIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def known(address: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """Return the catalogue, which has one log, Tiny, with its digest."""
    tiny = Entry(
        "Tiny",
        "batch",
        "five jobs",
        address,
        "logs/log.swf.gz",
        "Example Lab",
        "A. Author, 2026",
        "none",
        sha256=DIGEST,
    )
    known = {"Tiny": tiny}
    monkeypatch.setattr(catalogue, "entries", lambda: known)
    return known


@pytest.mark.parametrize("file", ["log.swf.gz", "plain.swf", "packed.swf"])
def test_a_log_is_fetched_once_and_used_by_name(
    file: str, known: dict[str, Entry], desim: Desim, cached: Path, tmp_path: Path
) -> None:
    known["Tiny"] = replace(known["Tiny"], file=file, jobs=6, cores=1000)
    outcome = desim("fetch", "Tiny")
    assert outcome.status == 0, outcome.err
    assert list(cached.iterdir()) == [cached / file]
    for part in (str(cached / file), DIGEST, f"{len(LOG)} bytes, 5 lines without", "A. Author, 2026", "Example Lab"):
        assert part in outcome.out
    assert "downloading" in outcome.err and "5 jobs, but 6 as published, 8 cores, but 1,000 as published" in outcome.err
    before = (cached / file).stat()
    plain = tmp_path / "plain.swf"
    plain.write_bytes(LOG)
    assert before.st_mode == plain.stat().st_mode  # others may read it, as far as they may anything
    assert "downloading" not in desim("fetch", "Tiny").err
    assert (cached / file).stat().st_ino == before.st_ino
    assert desim("fetch", "Tiny", "--force").status == 0
    assert (cached / file).stat().st_ino != before.st_ino
    by_path, by_name = swf.read(plain), swf.read("Tiny")
    assert by_name.jobs == by_path.jobs == registry.read("Tiny").jobs == registry.load("Tiny").jobs
    assert list(swf.stream("Tiny")) == list(by_path.jobs)
    assert desim("convert", "Tiny", tmp_path / "tiny.csv").status == 0
    assert registry.read(tmp_path / "tiny.csv").jobs == by_path.jobs
    for more in ((), ("--stream",)):
        runs = [
            json.loads(desim("run", "batch", "--trace", one, "--agent", "easy", "--json", *more).out)
            for one in (plain, "Tiny")
        ]
        assert runs[0]["metrics"] == runs[1]["metrics"]
        assert runs[1]["workload"]["citation"] == f"Tiny: Example Lab, {known['Tiny'].url}; cite A. Author, 2026"
        assert "citation" not in runs[0]["workload"]


@pytest.mark.parametrize(
    ("file", "digest", "words"),
    [
        ("other.swf", DIGEST, f"sha256 {hashlib.sha256(OTHER).hexdigest()}, expected {DIGEST}"),
        ("page.swf", "", "its beginning does not have 'Computer:'"),
        ("broken.swf.gz", "", "corrupt gzip data"),
        ("cut.swf", "", "bytes read"),
        ("missing.swf", "", "404"),
        ("", "", "Connection refused"),
    ],
)
def test_nothing_is_left_of_what_cannot_be_fetched(
    file: str, digest: str, words: str, known: dict[str, Entry], desim: Desim, cached: Path
) -> None:
    there = "http://127.0.0.1:9/" if not file else known["Tiny"].address
    file = file or "log.swf.gz"
    known["Tiny"] = one = replace(known["Tiny"], address=there, file=file, sha256=digest, begins=("Computer:",))
    outcome = desim("fetch", "Tiny")
    assert outcome.status > 0 and words in outcome.err
    assert one.url in outcome.err
    assert list(cached.iterdir()) == []
    if outcome.status == 1:  # nothing has come, so it says where to put the file
        assert f"put it at {cached / file}" in outcome.err
    (cached / file).write_bytes(LOG)
    assert desim("run", "batch", "--trace", "Tiny").status == (0 if digest in ("", DIGEST) else 2)
    with pytest.raises((WorkloadError, DesimError)):
        catalogue.fetch("Tiny", force=True)
    assert (cached / file).read_bytes() == LOG  # what was there stays


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_leaves_no_file(number: int, known: dict[str, Entry], cached: Path) -> None:
    one = known["Tiny"]
    code = (
        f"{INTERRUPTIBLE}from desim.workloads import catalogue as c; "
        f"one = c.Entry('Tiny', 'batch', 'a', {one.address!r}, 'half.swf', 's', 'c', 'l'); "
        "c.entries = lambda: {'Tiny': one}; from desim.cli import main; raise SystemExit(main(['fetch', 'Tiny']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert Server.half_is_sent.wait(60)
        process.send_signal(number)
        _, errors = process.communicate()
    assert not (cached / "half.swf").exists()
    if number == signal.SIGINT:
        assert process.returncode == 1 and "interrupted" in errors
        assert list(cached.iterdir()) == []
    known["Tiny"] = replace(one, file="half.swf", sha256="")
    assert known["Tiny"].path is None


def test_files_put_there_by_hand(known: dict[str, Entry], desim: Desim, cached: Path) -> None:
    missing = desim("run", "batch", "--trace", "Tiny")
    assert missing.status == 2
    place = cached / "log.swf.gz"
    assert "try `desim fetch Tiny`" in missing.err and f"{known['Tiny'].url} at {place}" in missing.err
    cached.mkdir()
    for path, content in ((cached / "log.swf", LOG), (place, gzip.compress(LOG))):  # unpacked serves as well
        path.write_bytes(content)
        assert catalogue.located("Tiny") == path
        assert "downloading" not in desim("fetch", "Tiny").err
    place.write_bytes(gzip.compress(OTHER))
    for command in (("fetch", "Tiny"), ("run", "batch", "--trace", "Tiny")):
        assert f"{place} is not Tiny: its unpacked content has sha256" in desim(*command).err


def test_a_name_is_not_a_file_of_that_name(
    known: dict[str, Entry], cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Tiny").write_bytes(OTHER)
    with pytest.raises(WorkloadError, match="has not been fetched"):
        swf.read("Tiny")
    assert swf.read("./Tiny").jobs == swf.read(Path("Tiny")).jobs
    with pytest.raises(WorkloadError, match=r"kth-sp2: no such file .*did you mean 'KTH-SP2'"):
        registry.load("kth-sp2")


def test_stored_runs_know_the_file_by_its_content(
    known: dict[str, Entry], cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desim.comparing.with_pages", lambda found, *arguments: found)
    known["Tiny"] = replace(known["Tiny"], sha256="")

    def reused(trace: str) -> bool:
        return package.compare("batch", ["fcfs"], trace=trace, workers=1, out=tmp_path / "out").all_runs[0].reused

    path = str(catalogue.fetch("Tiny"))
    assert [reused("Tiny"), reused("Tiny"), reused(path)] == [False, True, True]
    Path(path).write_bytes(OTHER)
    assert not reused("Tiny")
    with recording() as heard:
        swf.read("Tiny")
    assert path in heard.used()["files"]


def test_pages_cite(known: dict[str, Entry], desim: Desim, tmp_path: Path, no_figures: None) -> None:
    assert desim("fetch", "Tiny").status == 0
    sentence = catalogue.citation("Tiny")
    assert desim("run", "batch", "--trace", "Tiny", "--agent", "easy", "--out", tmp_path / "run").status == 0
    assert desim("view", tmp_path / "run", "--out", tmp_path / "run.html").status == 0
    assert sentence in (tmp_path / "run.html").read_text()
    arguments = ("--trace", "Tiny", "--agents", "easy,fcfs", "--out", tmp_path / "out", "--workers", "1")
    assert desim("compare", "batch", *arguments).status == 0
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["workload"]["citation"] == sentence
    assert desim("view", tmp_path / "out", "--out", tmp_path / "out.html").status == 0
    assert sentence in (tmp_path / "out.html").read_text()


def test_the_catalogue_is_listed(desim: Desim, cached: Path) -> None:
    outcome = desim("list", "workloads")
    assert outcome.status == 0 and f"downloads one to {cached}" in outcome.out
    rows = {line.split()[0]: line.split() for line in outcome.out.splitlines()[2:] if line.strip()}
    assert catalogue.entries().keys() <= rows.keys()
    document = json.loads(desim("list", "workloads", "--json").out)["catalogue"]
    assert document["KTH-SP2"]["url"].endswith("/l_kth_sp2/KTH-SP2-1996-2.1-cln.swf.gz")
    assert [one["path"] for one in document.values()] == [None] * len(document)
    assert "did you mean 'KTH-SP2'" in desim("fetch", "KTH-SP").err
    assert "NAME is missing" in desim("fetch").err


def test_what_a_log_needs_is_fetched_with_it(known: dict[str, Entry], cached: Path) -> None:
    known["Table"] = replace(known["Tiny"], name="Table", file="plain.swf")
    known["Tiny"] = replace(known["Tiny"], needs=("Table",))
    assert catalogue.fetch("Tiny") == cached / "log.swf.gz"
    assert catalogue.located("Table") == cached / "plain.swf"


def test_every_entry_is_complete() -> None:
    for name, one in catalogue.entries().items():
        assert "," not in name and name == one.name
        assert one.problem in ("batch", "dag", "deferrable", "multiserver")
        assert one.url.startswith("https://") and one.source and one.citation and one.licence, name
        assert one.sha256 or one.begins, name
        assert len(one.sha256) in (0, 64)
    assert {name for name, one in catalogue.entries().items() if one.sha256} == COPIES.keys()


@pytest.mark.skipif(not SHARED.exists(), reason="needs the data sets")
def test_copies_with_a_known_origin_are_what_the_catalogue_describes(cached: Path, desim: Desim) -> None:
    cached.mkdir()
    for name, copy in (COPIES | SIMILAR).items():
        entry = catalogue.entries()[name]
        (cached / entry.target.name).write_bytes((SHARED / copy).read_bytes())
        content = entry.check(entry.target)
        assert not entry.differences(content), name
        if copy.endswith((".swf", ".swf.gz")):
            trace = registry.read(name, max_jobs=50)
            assert trace.num_cores in (None, entry.cores)
    assert registry.load("CERIT-SC", nodes="log", num_jobs=9).jobs[0].queue == "q_1d"
    assert [workflows.read(name).num_nodes for name in ("Montage", "1000Genome")] == [58, 52]
    assert len(machines("openb-gpu-nodes")) == 1213
    assert desim("run", "dag", "--trace", "Montage,1000Genome", "--agent", "fifo-eft").status == 0
    assert (
        desim("compare", "batch", "--trace", "KTH-SP2", "--jobs", "50", "--agents", "easy", "--recorded-waits").status
        == 0
    )


@pytest.mark.parametrize(
    "content", ["[workload", "workload = 3", "[workload.a]\nurl = 1", "[collection]", "[[" * 5_000]
)
def test_a_damaged_catalogue_is_one_sentence(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "DATA", tmp_path / "catalogue.toml")
    catalogue.DATA.write_text(content)
    with pytest.raises(WorkloadError, match=r"catalogue.toml is damaged .*; try to install desim again"):
        catalogue.entries.__wrapped__()


def test_rows_of_long_lines_count_once(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_bytes(b"; head\n" + b"1 " * 200_000 + b"\n\n2\n3")
    found = catalogue._content(tmp_path / "a.swf", 0, 0)
    assert (found.rows, found.size, len(found.head)) == (3, 400_012, catalogue.HEAD)
