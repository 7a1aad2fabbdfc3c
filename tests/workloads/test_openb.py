"""Nodes and pods of openb: what the files hold, the published measure of fragmentation, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from desim import WorkloadError
from desim.problems.batch import (
    Fragmentation,
    FragmentationGradient,
    NodeAvailability,
    NodeTable,
    Request,
    typical_requests,
)
from desim.workloads.batch.openb import CPU, read_nodes, read_pods

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not (DATA / "gpu" / "openb").is_dir(), reason="needs ../shared/data/gpu/openb")
NODES = DATA / "alibaba" / "openb_node_list_gpu_node.csv"
DEFAULT = DATA / "alibaba" / "openb_pod_list_default.csv"


@needs_data
@pytest.mark.parametrize(
    ("workload", "pods", "gpus", "kinds", "empty"),
    [
        ("default", 8_152, 6_086.80, 35, 866_232.55),
        ("cpu050", 7_439, 6_086.80, 35, 344_952.23),
        ("gpuspec10", 8_152, 6_086.80, 74, 1_179_977.54),
        ("gpuspec33", 8_152, 6_086.80, 127, 2_204_453.28),
        ("gpushare100", 8_152, 3_952.67, 21, 847_450.92),
        ("multigpu50", 9_061, 11_358.80, 43, 915_078.28),
    ],
)
def test_the_described_workloads(workload: str, pods: int, gpus: float, kinds: int, empty: float) -> None:
    """Counts, and the fragmentation of the empty cluster in thousandths of GPUs, are those of the description."""
    path = DEFAULT if workload == "default" else DATA / "gpu" / "openb" / f"openb_pod_list_{workload}.csv"
    requests = [pod.request for pod in read_pods(path)]
    assert (len(requests), sum(request.gpus for request in requests)) == (pods, pytest.approx(gpus, abs=0.005))
    table = NodeTable(read_nodes(NODES))
    assert (len(table), table.num_gpus) == (1_213, 6_212)
    typical = typical_requests(requests)
    assert len(typical) == kinds
    assert Fragmentation(typical, table, CPU).of_room(NodeAvailability(table)).sum() == pytest.approx(empty, abs=0.01)


@needs_data
def test_the_described_scores() -> None:
    """Examples on a node of model G2 with 96 CPUs and 8 GPUs."""
    typical = typical_requests(pod.request for pod in read_pods(DEFAULT))
    nodes = [node for node in read_nodes(NODES) if node.gpu_model == "G2" and node.cores == 96]
    table = NodeTable(nodes[:1])
    room, policy = NodeAvailability(table), FragmentationGradient(typical, CPU)
    only = np.array([0])

    def score(cpu: int, gpus: float) -> int:
        return int(policy.scores(room, table.compile(Request(gpus=gpus, resources=((CPU, cpu),))), only)[0])

    assert Fragmentation(typical, table, CPU).of_room(room)[0] == pytest.approx(1_087.8187, abs=1e-4)
    assert [score(3_152, 0.81), score(11_908, 0.47), score(11_300, 1), score(12_500, 0)] == [48, 42, 53, 50]
    room.free[0, table.resources.index(CPU)] = 60_000
    room.gpus[0] = [1000, 1000, 530, 190, 0, 0, 0, 0]
    assert Fragmentation(typical, table, CPU).of_room(room)[0] == pytest.approx(892.6320, abs=1e-4)
    assert score(11_908, 0.47) == 59
    shape = table.compile(Request(gpus=0.47, resources=((CPU, 11_908),)))
    assert policy.device(room, shape, 0, room.gpus[0]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,cpu_milli,memory_mib,num_gpu\n", "no column 'gpu_milli'"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1,0,0\nb,1000,1,2,500\n",
            "line 3: gpu_milli: got 500 with num_gpu 2",
        ),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,many,1,0,0\n", "line 2: .*many"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,-1,0,0\n",
            "line 2: memory: got -1048576, expected an integer >= 0",
        ),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=f"pods.csv.*{message}"):
        read_pods(path)


def test_nodes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nx,96000,2,8,G2\ny,500,1,0,\n")
    with pytest.raises(WorkloadError, match=r"line 3: node 'y': cores: got 0, expected an integer >= 1"):
        read_nodes(path)
    with pytest.raises(WorkloadError, match=r"absent.csv: cannot be read"):
        read_nodes(tmp_path / "absent.csv")
