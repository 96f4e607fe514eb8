"""Kills processes of running experiments, at random moments drawn from a seed, and checks that nothing changes.

``python experiments/kills.py [--kills 20] [--seed 0] [--rounds 300]``

Each kill hits another run: SIGKILL of a party, the server, the driver, a party that is just saving its state, or all
processes of one of two nodes, or SIGSTOP, a hang. Every run must end by itself with the digests and files of the
undisturbed run in one process. The last column is what the kill cost: seconds until the run was where it had been.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import psutil
import ray._private.state
from omegaconf import OmegaConf
from ray.cluster_utils import Cluster

from flexray.config.job import Job, build
from flexray.config.schema import config_folder, register
from flexray.core.messages import Ended, Record, RoundRecord
from flexray.engine.hosts.inline import InlinePlace
from flexray.engine.hosts.ray import RayCluster
from flexray.models import MLP
from flexray.run.execution import Execution
from flexray.run.save.checkpoint import Checkpoint
from flexray.run.watch.base import Observer, Observers
from flexray.run.watch.folder import TableObserver
from flexray.run.watch.timeline import TimelineObserver

FILES = ("rounds.csv", "evals.csv", "timeline.json")
ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
TARGETS = {"party": "-party-", "server": "-server", "driver": "-driver", "hang": "-party-", "saving": "", "node": ""}
FLAG = "FLEXRAY_KILLS_FLAG"


class DiesWhileSaved(MLP):
    """The default model, which kills its process once while its state is read, if a flag file is there."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state, or die."""
        flag = Path(os.environ.get(FLAG, ""))
        if flag.name and flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().state_dict(*args, **kwargs)


class TwoNodes:
    """A Ray cluster of two nodes on this machine; the second can be killed and is started again for the next run.

    Args:
        folder: Where Ray puts files and sockets: a short path.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._cluster = Cluster(True, head_node_args={"num_cpus": 2, "temp_dir": str(folder)})
        self._second: Any = None
        self.address: str = self._cluster.address

    def complete(self) -> None:
        """Start the second node, if it is not there."""
        self._second = self._second or self._cluster.add_node(num_cpus=2)

    def lose(self) -> None:
        """Kill every process of the second node."""
        raylet = psutil.Process(self._second.all_processes["raylet"][0].process.pid)
        for process in (*raylet.children(recursive=True), raylet):
            process.kill()
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = None

    def close(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


class Places:
    """Where the runs are: a Ray of their own or, for the loss of a node, one of two nodes.

    Args:
        folder: For the files of the cluster of two nodes.
    """

    def __init__(self, folder: Path) -> None:
        self.ray = RayCluster()
        self._folder = folder
        self._nodes: TwoNodes | None = None

    def cluster_for(self, what: str) -> tuple[str, ...]:
        """Return overrides for a run that is to be hit so."""
        if what != "node":
            return ("cluster=local",)
        self.ray.close()  # two nodes are started by a process that has joined none
        self._nodes = self._nodes or TwoNodes(self._folder)
        self._nodes.complete()
        return ("cluster=ray", f"cluster.address={self._nodes.address}", "cluster.strategy=spread")

    def lose_node(self) -> None:
        """Lose the second node."""
        if self._nodes is not None:
            self._nodes.lose()

    def close(self) -> None:
        """Leave nothing."""
        self.ray.close()
        if self._nodes is not None:
            self._nodes.close()


class Killer(Observer):
    """Strikes when a round is reported.

    Args:
        what: A key of TARGETS.
        number: The round.
        draw: Picks one of several.
        flag: The file that tells a model to die while it is saved.
        lose_node: Kills a node.
    """

    def __init__(
        self, what: str, number: int, draw: random.Random, flag: Path, lose_node: Callable[[], None] | None = None
    ) -> None:
        self._what, self._number, self._draw, self._flag, self._lose_node = what, number, draw, flag, lose_node
        self.ended: Ended | None = None

    def on(self, record: Record) -> None:
        """Strike, if it is time."""
        if isinstance(record, Ended):
            self.ended = record
        elif isinstance(record, RoundRecord) and record.round == self._number:
            self._number = 0
            if self._what == "saving":
                self._flag.touch()
            elif self._what == "node" and self._lose_node:
                self._lose_node()
            else:
                os.kill(self._victim(), signal.SIGSTOP if self._what == "hang" else signal.SIGKILL)

    def _victim(self) -> int:
        actors = ray._private.state.actors().values()
        found = [a["Pid"] for a in actors if a["State"] == "ALIVE" and TARGETS[self._what] in a["Name"]]
        return self._draw.choice(sorted(found))


def compose(*overrides: str) -> tuple[Job, dict[str, Any]]:
    """Return a job as the command line would build it, and its configuration."""
    register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        cfg = hydra.compose("config", list(overrides), return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    del cfg.hydra
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return build(plain, choices["algo"], choices["dataset"], Path.cwd()), plain


def run(place: Any, folder: Path, killer: Killer, *overrides: str) -> tuple[Execution, dict[str, str]]:
    """Run a job and return what happened, and its digests."""
    job, plain = compose(*overrides)
    watching = Observers(lambda: [TableObserver(folder), TimelineObserver(folder, 1000), killer])
    execution = Execution(job, place, watching, folder, plain)
    since: Checkpoint | None = None
    try:
        execution.run(since)
    finally:
        watching.close()
    assert killer.ended is not None
    return execution, killer.ended.digests


def trial(number: int, what: str, args: argparse.Namespace, draw: random.Random, home: Path, places: Places) -> bool:
    """Run one experiment undisturbed and one that is hit; print a line, return whether all was as it should be."""
    algo, at, flag = draw.choice(ALGORITHMS), draw.randrange(1, args.rounds * 9 // 10), home / "die"
    common = (
        f"algo={algo}", f"rounds={args.rounds}", "epochs=null", "progress=false", "dataset.batch_size=128",
        "model._target_=kills.DiesWhileSaved", "checkpoint.every=40", "checkpoint.recover_every=20",
        "stall_timeout=6", "eval_every=50",
    )  # fmt: skip
    here, there = home / f"{number}-inline", home / f"{number}-ray"
    _, expected = run(InlinePlace(), here, Killer("", 0, draw, flag), *common, "cluster=inline")
    where = places.cluster_for(what)
    done, found = run(places.ray, there, Killer(what, at, draw, flag, places.lose_node), *common, *where)
    flag.unlink(missing_ok=True)
    same = found == expected and all((here / f).read_bytes() == (there / f).read_bytes() for f in FILES)
    for failure in done.failures:
        print(
            f"{number:4} {what:8} {algo:9} {failure.round + 1:8} {failure.from_round:8} {same!s:>6}"
            f" {failure.lost_s or float('nan'):7.1f}", flush=True,
        )  # fmt: skip
    if not done.failures:
        print(f"{number:4} {what:8} {algo:9} ended before it was hit", flush=True)
    return same and bool(done.failures)


def main() -> int:
    """Kill, compare, print a line per kill."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--kinds", nargs="+", choices=TARGETS, default=list(TARGETS))
    args = parser.parse_args()
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="kills", ignore_cleanup_errors=True) as home:
        os.environ[FLAG] = str(Path(home) / "die")
        sys.path.insert(0, str(Path(__file__).parent))
        places = Places(Path(home) / "ray")
        print(
            f"{'kill':>4} {'what':8} {'algo':9} {'in round':>8} {'back to':>8} {'equal':>6} {'lost s':>7}", flush=True
        )
        whats = [args.kinds[number % len(args.kinds)] for number in range(args.kills)]
        good = [trial(number, what, args, draw, Path(home), places) for number, what in enumerate(whats, 1)]
        places.close()
    print(f"{sum(good)} of {len(good)} kills left digests and files equal")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
