"""Kills processes of running experiments, at random moments drawn from a seed, and checks that nothing changes.

``python experiments/kills.py [--kills 20] [--seed 0] [--rounds 300]``

Each kill hits another run: SIGKILL of a party, the server, the driver or a party that is just saving its state, or
SIGSTOP, a hang. Every run must end by itself with the digests and files of the undisturbed run in one process. The last
column is what the kill cost: seconds until the run was where it had been.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import hydra
import ray._private.state
from omegaconf import OmegaConf

from flexray import config
from flexray.build import Job, build
from flexray.checkpoint import Checkpoint
from flexray.messages import Ended, Record, RoundRecord
from flexray.models import MLP
from flexray.observers.base import Observer, Observers
from flexray.observers.folder import TableObserver
from flexray.observers.timeline import TimelineObserver
from flexray.run import config_folder
from flexray.running import Execution
from flexray.runtime.inprocess import InlinePlace
from flexray.runtime.ray_runtime import RayCluster

FILES = ("rounds.csv", "evals.csv", "timeline.json")
ALGORITHMS = ("flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl")
TARGETS = {"party": "-party-", "server": "-server", "driver": "-driver", "hang": "-party-", "saving": ""}
FLAG = "FLEXRAY_KILLS_FLAG"


class DiesWhileSaved(MLP):
    """The usual model, whose process is killed while its state is read, once, when a file says so."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state, or die."""
        flag = Path(os.environ.get(FLAG, ""))
        if flag.name and flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().state_dict(*args, **kwargs)


class Killer(Observer):
    """Strikes when a round is reported.

    Args:
        what: Whom: a key of TARGETS.
        number: In which round.
        draw: Chooses among several.
        flag: The file that tells a model to die while it is saved.
    """

    def __init__(self, what: str, number: int, draw: random.Random, flag: Path) -> None:
        self._what, self._number, self._draw, self._flag = what, number, draw, flag
        self.ended: Ended | None = None

    def on(self, record: Record) -> None:
        """Strike, if it is time."""
        if isinstance(record, Ended):
            self.ended = record
        elif isinstance(record, RoundRecord) and record.round == self._number:
            self._number = 0
            if self._what == "saving":
                self._flag.touch()
            else:
                os.kill(self._victim(), signal.SIGSTOP if self._what == "hang" else signal.SIGKILL)

    def _victim(self) -> int:
        actors = ray._private.state.actors().values()
        found = [a["Pid"] for a in actors if a["State"] == "ALIVE" and TARGETS[self._what] in a["Name"]]
        return self._draw.choice(sorted(found))


def compose(*overrides: str) -> tuple[Job, dict[str, Any]]:
    """Return a job as the command line would build it, and its configuration."""
    config.register()
    with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        cfg = hydra.compose("config", list(overrides), return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    del cfg.hydra
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return build(plain, choices["algo"], choices["dataset"], Path.cwd()), plain


def run(place: Any, folder: Path, killer: Killer, *overrides: str) -> tuple[Execution, dict[str, str]]:
    """Run a job and return what happened, and its digests."""
    job, plain = compose(*overrides)
    watching = Observers([TableObserver(folder), TimelineObserver(folder, 1000), killer])
    execution = Execution(job, place, watching, folder, plain)
    since: Checkpoint | None = None
    try:
        execution.run(since)
    finally:
        watching.close()
    assert killer.ended is not None
    return execution, killer.ended.digests


def main() -> int:
    """Kill, compare, print a line per kill."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--kinds", nargs="+", choices=TARGETS, default=list(TARGETS))
    args = parser.parse_args()
    draw = random.Random(args.seed)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="kills") as home:
        flag = Path(home) / "die"
        os.environ[FLAG] = str(flag)
        sys.path.insert(0, str(Path(__file__).parent))
        cluster = RayCluster()
        print(
            f"{'kill':>4} {'what':8} {'algo':9} {'in round':>8} {'back to':>8} {'equal':>6} {'lost s':>7}", flush=True
        )
        for number in range(1, args.kills + 1):
            what, algo = args.kinds[(number - 1) % len(args.kinds)], draw.choice(ALGORITHMS)
            at = draw.randrange(1, args.rounds * 9 // 10)
            common = (
                f"algo={algo}", f"rounds={args.rounds}", "epochs=null", "progress=false", "dataset.batch_size=128",
                "model._target_=kills.DiesWhileSaved", "checkpoint.every=40", "checkpoint.recover_every=20",
                "stall_timeout=6", "eval_every=50",
            )  # fmt: skip
            here, there = Path(home) / f"{number}-inline", Path(home) / f"{number}-ray"
            _, expected = run(InlinePlace(), here, Killer("", 0, draw, flag), *common, "cluster=inline")
            done, found = run(cluster, there, Killer(what, at, draw, flag), *common, "cluster=local")
            flag.unlink(missing_ok=True)
            same = found == expected and all((here / f).read_bytes() == (there / f).read_bytes() for f in FILES)
            bad += not same or not done.failures
            for failure in done.failures:
                print(
                    f"{number:4} {what:8} {algo:9} {failure.round + 1:8} {failure.from_round:8} {same!s:>6}"
                    f" {failure.lost_s or float('nan'):7.1f}", flush=True,
                )  # fmt: skip
            if not done.failures:
                print(f"{number:4} {what:8} {algo:9} ended before it was hit", flush=True)
        cluster.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
