"""What the site and its users do, on the command line: in force, told, swept, and refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Desim

from desim import Result
from desim.plotting import view

SMALL = ("--jobs", 60, "--cores", 32)
RESERVATIONS = "0:3600:8+86400:90000:32"
QOS = "urgent:priority=10:preempts=standby:scope=user:members=1+standby:mode=suspend:scope=queue:members=0|2"
LIMITS = "user:running_jobs=2:running_cores=20+queue=3|4:job_time=90000"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with users, queues, and jobs that come after others."""
    rows = []
    for n in range(1, 41):
        fields = dict(enumerate([-1] * 18, 1)) | {1: n, 2: 10 * n, 4: 50, 5: 4, 11: 1, 12: n % 3, 15: n % 5}
        fields |= {17: n - 2, 18: 7} if n > 2 else {}
        rows.append(" ".join(map(str, fields.values())))
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 32\n" + "\n".join(rows) + "\n")
    return path


def test_all_that_is_in_force_is_told_and_valid(desim: Desim, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    site = ("--reservations", RESERVATIONS, "--limits", LIMITS, "--over-time-limit", 60, "--checkpoint-interval", 600)
    failures = ("--mean-time-to-failure", 1e9, "--mean-time-to-repair", 1)  # without which nothing interrupts jobs
    outcome = desim("run", "batch", "--trace", log, *site, *failures, "--dependencies", "keep", "--out", out)
    assert outcome.status == 0, outcome.err
    for sentence in (
        "Limits: each user: at most 2 jobs at once, 20 cores at once; queue 3, 4: at most 90,000 s per job.",
        "Reservations: 8 cores from 0 to 3,600 s; 32 cores from 86,400 to 90,000 s.",
        "Jobs may exceed their requested time by 60 s.",
        "Jobs have a checkpoint every 600 s of work.",
        "38 jobs depend on the ends of other jobs.",
    ):
        assert sentence in " ".join(outcome.out.split())
    result = Result.load(out)
    assert result.info["reservations"] == 2 and result.info["limits"] == 2
    assert result.table("dependencies")["think_time"].unique().to_list() == [7.0]
    page = tmp_path / "page.html"
    view({"easy": result}, page)
    assert "each user: at most 2 jobs at once" in page.read_text()
    again = json.loads(desim("run", "batch", "--trace", log, *site, *failures, "--json").out)
    assert "dependencies" not in again["run"]  # of a log they are dropped unless they are asked for


def test_files_say_the_same_as_the_notation(desim: Desim, log: Path, tmp_path: Path) -> None:
    reservations, limits = tmp_path / "reservations.csv", tmp_path / "limits.yaml"
    reservations.write_text("start, end, cores\n0,3600,8\n86400,90000,32\n")
    limits.write_text(
        "limits:\n- {scope: user, running_jobs: 2, running_cores: 20}\n"
        "- {scope: queue, members: [3, 4], job_time: 90000}\n"
    )
    of_files = desim("run", "batch", "--trace", log, "--reservations", reservations, "--limits", limits)
    of_text = desim("run", "batch", "--trace", log, "--reservations", RESERVATIONS, "--limits", LIMITS)
    assert of_files.status == 0, of_files.err
    assert of_files.out.splitlines()[1:] == of_text.out.splitlines()[1:]


def test_reservations_of_nodes(desim: Desim, tmp_path: Path) -> None:
    """In the notation and in files, told, swept, and for users by name."""
    jobs, csv, yaml = (tmp_path / name for name in ("jobs.csv", "reservations.csv", "reservations.yaml"))
    rows = [f"{n},{n},4,100,{('ann', 'bob')[n % 2]}" for n in range(12)]
    jobs.write_text("job_id,submission_time,cores,run_time,user\n" + "\n".join(rows) + "\n")
    text = "50:500:nodes=n0|1+500:700:nodes=all:users=ann+900:950:nodes=n2:users=ann|bob"
    csv.write_text("start,end,nodes,users\n50,500,n0|n1,\n500,700,all,ann\n900,950,2,ann bob\n")
    entries = ["50, end: 500, nodes: [n0, 1]", "500, end: 700, nodes: all, users: ann"]
    entries.append("900, end: 950, nodes: [n2], users: [ann, bob]")
    yaml.write_text("reservations:\n" + "".join(f"- {{start: {entry}}}\n" for entry in entries))
    arguments = ("run", "batch", "--trace", jobs, "--nodes", "3x8", "--agent", "easy", "--reservations")
    outcomes = [desim(*arguments, reservations) for reservations in (text, csv, yaml)]
    assert [outcome.status for outcome in outcomes] == [0, 0, 0], outcomes[0].err
    assert len({outcome.out.partition("\n")[2] for outcome in outcomes}) == 1
    told = (
        "Reservations: nodes n0, n1 from 50 to 500 s; all nodes from 500 to 700 s but for user 0; node n2 from 900 to"
    )
    assert told in " ".join(outcomes[0].out.split())
    compared = ("compare", *arguments[1:6], "--agents", "easy,conservative", "--workers", 1, "--json", "--reservations")
    swept = json.loads(desim(*compared, "50:500:nodes=n0,50:500:nodes=all").out)
    waits = [point["means"]["easy-fcfs"]["waiting_time_mean"]["mean"] for point in swept]
    assert waits[0] < waits[1]


def test_what_a_site_does_is_swept_on_one_workload(desim: Desim, log: Path) -> None:
    """All agents have the same jobs, though these are submitted at other times and run in other sizes."""
    arguments = ("--agents", "lcfs,easy", "--workers", 1, "--json")
    limits = "user:running_jobs=1,user:running_jobs=3"
    swept = json.loads(desim("compare", "batch", "--trace", log, *arguments, "--limits", limits).out)
    assert [point["values"]["limits"] for point in swept] == limits.split(",")
    waits = [point["means"]["easy-fcfs"]["waiting_time_mean"]["mean"] for point in swept]
    assert waits[0] > waits[1]
    closed = desim("compare", "batch", "--trace", log, *arguments, "--cores", 6, "--dependencies", "keep")
    assert closed.status == 0 and closed.err == ""
    molded = desim("compare", "batch", *SMALL, *arguments[2:], "--agents", "easy,easy-moldable", "--moldable", 1)
    assert molded.status == 0
    assert "desim: easy-fcfs does not take into account: moldable (starts jobs in their first size)" in molded.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reservations", "0:10"), "--reservations: got 0:10, expected a file, or START:END:CORES"),
        (("--reservations", "9:3:4"), "--reservations: got 9:3:4; reservations: the end of a reservation: got 3.0"),
        (("--reservations", "0:9:64"), "reservations reserve 64 cores, but the cluster has 32"),
        (("--reservations", "none.csv"), "none.csv: cannot be read"),
        (("--reservations", "0:9:3:4"), "--reservations: got 0:9:3:4, expected a file, or START:END:CORES"),
        (("--reservations", "0:9:node=n1"), "unknown 'node' (did you mean 'nodes'?)"),
        (("--reservations", "0:9:3:nodes=n1"), "expected only one of cores, nodes and partition"),
        (("--reservations", "0:9:nodes=n1"), "names nodes, but the cluster has none; give its number of cores"),
        (
            ("--reservations", "0:9:4", "--nodes", "2x16"),
            "counted cores, but the cluster has nodes; name the nodes",
        ),
        (("--reservations", "0:9:nodes=n0|n7", "--nodes", "2x16"), "reservation: unknown node 'n7'"),
        (
            ("--reservations", "0:9:nodes=5", "--nodes", "2x16"),
            "reservation: got node 5, expected a number from 0 to 1",
        ),
        (
            ("--reservations", "0:9:partition=gpu", "--nodes", "2x16"),
            "reservation: unknown partition 'gpu'; there are none",
        ),
        (("--reservations", "0:9:nodes=0:users=ann", "--nodes", "2x16"), "users: got 'ann', expected a number"),
        (
            ("--reservations", "0:9:nodes=all+5:6:nodes=1", "--nodes", "2x16"),
            "at 5.0 s, node 'n1' belongs to two reservations",
        ),
        (("--limits", "usr:running_jobs=4"), "scope: got 'usr' (did you mean 'user'?)"),
        (("--limits", "user:running=4"), "unknown 'running'"),
        (("--limits", "user:running_jobs=0"), "running_jobs: got 0"),
        (("--limits", "user"), "--limits: got user, expected a file, or e.g. user:running_jobs=4"),
        (("--limits", "queue:running_jobs=4"), "limits: got scope 'queue', but the jobs have no queue; expected"),
        (
            ("--qos", "urgent:preempts"),
            "--qos: got urgent:preempts, expected a file, or e.g. urgent:preempts=",
        ),
        (("--qos", "a:prio=1"), "unknown 'prio' (did you mean 'priority'?)"),
        (("--qos", "a:priority=x"), "qos: priority: got 'x', expected a number"),
        (("--qos", "a:mode=stop:scope=user"), "the mode of QOS 'a': got 'stop'"),
        (("--qos", "a:preempts=a:scope=user"), "QOS 'a' preempts itself"),
        (
            ("--qos", "a:preempts=b:scope=user", "--users", 2),
            "QOS 'a': preempts: got 'b', expected one of: a",
        ),
        (
            ("--qos", "a:preempts=b:scope=user+b:preempts=a", "--users", 2),
            "QOS levels preempt each other: a preempts b preempts a",
        ),
        (("--qos", "a:scope=usr"), "scope: got 'usr' (did you mean 'user'?), expected one of user, partition, queue"),
        (("--qos", "a:scope=queue"), "scope=queue, but the queue of jobs is unknown"),
        (("--qos", "a:scope=user"), "scope=user, but the user of jobs is unknown"),
        (("--qos", "a:scope=user", "--stream"), "scope=user needs all jobs in advance; not possible with a stream"),
        (("--qos", "a:priority=2"), "qos: got a, but no job has a QOS"),
        (("--limits", "qos:running_jobs=4"), "limits: got scope 'qos', but the jobs have no qos; expected"),
        (("--over-time-limit", -1), "--over-time-limit: got -1"),
        (("--checkpoint-interval", 0), "--checkpoint-interval: got 0"),
        (("--dependencies", "keep"), "--dependencies: got keep, but a generated workload has none"),
        (("--dependencies", "users"), "got no known user"),
        (("--dependencies", "users", "--stream"), "--dependencies: got users, but a stream cannot link"),
        (("--session-gap", 5), "--session-gap: got 5.0, but it applies only"),
        (("--users", 0), "--users: got 0, expected an integer from 1 to"),
        (("--moldable", -1), "sigma: got -1"),
        (("--moldable", 1, "--nodes", "2x16"), "--moldable: got 1.0, but it applies only to jobs"),
    ],
)
def test_what_makes_no_sense_is_named(desim: Desim, options: tuple[object, ...], message: str) -> None:
    arguments = ("--jobs", 5) if "--nodes" in options else ("--jobs", 5, "--cores", 32)
    outcome = desim("run", "batch", *arguments, *options)
    assert outcome.status == 2
    assert message in " ".join(outcome.err.split())


def test_files_that_make_no_sense_are_named_with_line_and_column(desim: Desim, tmp_path: Path) -> None:
    for name, text, message in (
        ("w.csv", "start,end,cores\n0,9,4\n5,x,4\n", "w.csv: line 3: end: got 'x', expected a number"),
        ("w.csv", "start,end,core\n0,9,4\n", "w.csv: line 2: unknown 'core' (did you mean 'cores'?)"),
        ("w.csv", "start,end,cores\n", "w.csv: got no reservations, expected at least one"),
        ("w.yaml", "- {start: 0, end: 9, cores: 1.5}\n", "w.yaml: entry 1: the cores of a reservation: got 1.5"),
        ("w.yaml", "start: 0\n", "w.yaml: expected a list of reservations"),
        ("w.yaml", "- 7\n", "w.yaml: entry 1: got 7, expected names and values"),
        ("w.yaml", "{\n", "w.yaml: is not a YAML file"),
    ):
        path = tmp_path / name
        path.write_text(text)
        outcome = desim("run", "batch", *SMALL, "--reservations", path)
        assert outcome.status == 2
        assert message in " ".join(outcome.err.split()), outcome.err


def test_columns_of_a_job_table_are_in_force(desim: Desim, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submission_time,cores,run_time,user,queue,after,think_time,sizes\n"
        "1,0,4,100,ann,long,,,8:60\n2,0,4,50,bob,short,,,\n3,0,4,10,ann,short,1 2,30,\n4,0,4,10,bob,short,,,\n"
    )
    limits = "queue=short:running_jobs=1+user=ann:running_jobs=1"
    arguments = ("run", "batch", "--trace", path, "--cores", 64, "--limits", limits, "--agent", "easy")
    for more, makespan, said in (((), 140.0, "1 jobs depend"), (("--dependencies", "drop"), 110.0, "short: at")):
        outcome = desim(*arguments, *more)
        assert outcome.status == 0, outcome.err
        assert f"complete at {makespan:g} s" in outcome.out and said in outcome.out


def test_users_who_wait_for_their_jobs(desim: Desim, log: Path, tmp_path: Path) -> None:
    """Of a model and of a log; the workload of the records is found again."""
    out = tmp_path / "out"
    for source in (("--trace", log), ("--jobs", 60, "--cores", 32, "--users", 4)):
        site = (*source, "--dependencies", "sequential", "--session-gap", 1e6)
        outcome = desim("run", "batch", *site, "--out", out, "--force")
        assert outcome.status == 0 and "jobs depend on the ends of other jobs" in outcome.out
        trace = () if "--trace" in source else ("--trace", "lublin")
        arguments = site[:2] + site[4:] if "--trace" not in source else site
        seen = desim("validate", out, *trace, *arguments, *(("--jobs", 60) if trace else ()))
        assert seen.status == 0, seen.out + seen.err
    refused = desim("run", "batch", "--trace", log, "--dependencies", "users", "--load", 0.5)
    assert refused.status == 2 and "--load: got 0.5, but users who wait" in refused.err
    assert "--users: got 3, but only generated jobs" in desim("run", "batch", "--trace", log, "--users", 3).err


def test_qualities_are_told_valid_and_the_same_in_files(desim: Desim, log: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "qualities.csv"
    table.write_text(
        "name,priority,preempts,mode,scope,members\nurgent,10,standby,,user,1\nstandby,,,suspend,queue,0|2\n"
    )
    arguments = ("run", "batch", "--trace", log, "--cores", 10, "--agent", "preemptive-easy")
    limits = "qos=standby:running_jobs=2"
    outcome = desim(*arguments, "--qos", QOS, "--limits", limits, "--out", out)
    assert outcome.status == 0, outcome.err
    for sentence in (
        "Quality of service (QOS): urgent with priority 10, preempts standby, requeued when preempted; standby with "
        "priority 0, suspended when preempted.",
        "Limits: qos standby: at most 2 jobs at once.",
    ):
        assert sentence in " ".join(outcome.out.split())
    result = Result.load(out)
    assert set(result.table("preemptions")["mode"]) == {"suspend"}
    assert result.metrics()["preemptions"] == result.table("preemptions").height > 0
    again = [desim(*arguments, "--qos", text) for text in (QOS, table)]
    assert again[0].out.splitlines()[1:] == again[1].out.splitlines()[1:]


def test_qualities_are_swept(desim: Desim, log: Path) -> None:
    modes = [QOS, QOS.replace("suspend", "requeue")]
    arguments = ("--cores", 10, "--agents", "easy,preemptive-easy", "--workers", 1, "--json")
    swept = json.loads(desim("compare", "batch", "--trace", log, *arguments, "--qos", ",".join(modes)).out)
    assert [point["values"]["qos"] for point in swept] == modes
    means = [point["means"] for point in swept]
    assert means[0]["easy-fcfs"] == means[1]["easy-fcfs"]
    assert means[0]["preemptive-easy-fcfs"] != means[1]["preemptive-easy-fcfs"]


def test_the_column_of_a_job_table_tells_qualities(desim: Desim, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submission_time,cores,run_time,qos\n1,0,4,100,standby\n2,0,4,50,\n3,10,4,10,urgent\n")
    qos = "urgent:priority=1:preempts=standby+standby:mode=suspend"
    arguments = ("run", "batch", "--trace", path, "--cores", 8, "--agent", "preemptive-easy")
    for more, makespan in (((), 100.0), (("--qos", qos), 110.0)):  # job 3 waits for job 2, or for nobody
        outcome = desim(*arguments, *more)
        assert outcome.status == 0, outcome.err
        assert f"complete at {makespan:g} s" in outcome.out
    outcome = desim(*arguments, "--qos", "urgent:priority=1")
    assert outcome.status == 2
    assert "job 1: qos: got 'standby', expected one of: urgent" in outcome.err


def test_further_columns_become_attributes(desim: Desim, tmp_path: Path) -> None:
    log, out = tmp_path / "jobs.csv", tmp_path / "run"
    log.write_text("job_id,submission_time,cores,run_time,image\na-1,0,4,100,gpu\na-2,5,2,50,gpu\na-3,6,2,50,\n")
    limits = ("--limits", "image=gpu:running_jobs=1")
    desim("run", "batch", "--trace", log, "--cores", 16, "--attributes", "image", *limits, "--out", out)
    rows = Result.load(out).jobs.select("job_id", "starting_time", "image").rows()
    assert rows == [("a-1", 0.0, "gpu"), ("a-2", 100.0, "gpu"), ("a-3", 6.0, None)]
    for source in (("--trace", log, "--cores", 16, "--stream"), ("--jobs", 3)):
        refused = desim("run", "batch", *source, "--attributes", "image")
        assert refused.status == 2 and "attributes: got image, but only job tables and" in " ".join(refused.err.split())
