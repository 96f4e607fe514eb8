"""Memory for a run's processes: what is free, what they take, what is said when it is too little."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flexray.cluster import cli
from flexray.cluster.cli import main
from flexray.core.errors import ResourceError
from flexray.core.memory import available_bytes
from flexray.engine.hosts.fit import Node
from flexray.engine.hosts.ray import RayCluster
from flexray.engine.hosts.resources import GIB, PROCESS_BYTES, check_memory, check_nodes
from helpers.jobs import Compose

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of a machine's own figures."""

    def to(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return to


def test_what_is_free_is_the_least_of_machine_and_container(tmp_path: Path, write: Write) -> None:
    def free() -> float:
        return available_bytes(tmp_path, tmp_path)

    machine = free()
    assert machine >= GIB
    write("meminfo", "MemTotal:  9000000 kB\nMemFree:  1000 kB\nMemAvailable:    700000 kB\n")
    assert free() == 700000 * 1024
    write("memory.max", "max\n")
    write("memory.current", "300000\n")
    write("memory.stat", "anon 200000\nfile 90000\ninactive_file 40000\nactive_file 2000\n")
    assert free() == 700000 * 1024
    write("memory.max", "500000\n")
    assert free() == 500000 - 300000 + 42000
    write("memory/memory.limit_in_bytes", "1000\n")
    write("memory/memory.usage_in_bytes", "900\n")
    write("memory/memory.stat", "active_file 700\ntotal_active_file 11\ntotal_inactive_file 22\n")
    assert free() == 133
    write("memory/memory.usage_in_bytes", "2000\n")
    assert free() == 0


@pytest.mark.parametrize(
    ("free", "how"),
    [
        (6 * PROCESS_BYTES - 1, "use cluster=packed, or cluster.parties_per_actor=2 to put so many into a process"),
        (3 * PROCESS_BYTES, "use cluster=packed, or cluster.parties_per_actor=4 to put so many into a process"),
        (3 * PROCESS_BYTES - 1, "use cluster=inline, which is one process"),
    ],
)
def test_more_processes_than_memory_holds_are_refused_with_how_many_fit(
    free: int, how: str, compose_job: Compose
) -> None:
    plan = compose_job("cluster=local").cluster
    check_memory(plan, 6 * PROCESS_BYTES)
    with pytest.raises(ResourceError) as refused:
        check_memory(plan, free)
    assert str(refused.value) == (
        "cluster: 6 processes (the driver, the server and 4 party hosts) take about 2.1 GiB of memory, 0.35 GiB each"
        f" before data and models, but {free / GIB:.3g} GiB are free; {how}"
    )


def test_a_run_and_its_check_refuse_alike_before_ray_starts(
    compose_job: Compose, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("flexray.cluster.cli", "flexray.engine.hosts.ray"):
        monkeypatch.setattr(f"{module}.available_bytes", lambda: 2.0 * GIB)
    job = compose_job("cluster=local")
    with pytest.raises(ResourceError) as refused:
        next(RayCluster().run(job.cluster, job.experiment))
    assert main(["check", "cluster=local"]) == 2
    assert capsys.readouterr().err == f"flexray: {refused.value}\n"


def test_the_memory_of_a_joined_cluster_is_that_of_all_its_nodes(compose_job: Compose) -> None:
    plan = compose_job("cluster=ray").cluster
    half = 3 * PROCESS_BYTES
    nodes = [Node(name, total, total) for name in "ab" for total in [{"memory": half - 100, "object_store_memory": 99}]]
    with pytest.raises(ResourceError, match=r"6 processes .*, but 2.1 GiB are in the cluster; use cluster=packed"):
        check_nodes(plan, nodes)
    check_nodes(plan, [*nodes, Node("c", {"memory": 2}, {})])
    check_nodes(plan, [Node("says nothing of memory", {"CPU": 1}, {})])


def test_the_table_of_nodes_says_what_is_free(monkeypatch: pytest.MonkeyPatch, compose_job: Compose) -> None:
    monkeypatch.setattr(cli, "available_bytes", lambda: 3.0)
    (here,) = cli._nodes(compose_job("cluster=local").cluster)
    assert here.free["memory"] == 3.0 < here.total["memory"]
