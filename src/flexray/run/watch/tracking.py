"""Experiment trackers, which all get the same series, and live figures for a cluster's monitoring.

TensorBoard, MLflow and Weights & Biases (``logger=...``) are imported only if chosen; Ray exports the live figures at
every node's Prometheus endpoint.
"""

from __future__ import annotations

import importlib
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from flexray.core.errors import ConfigError, near_match
from flexray.core.messages import Ended, EvalRecord, Record, RoundRecord, Started
from flexray.core.runfolder import TENSORBOARD_FOLDER
from flexray.run.watch.base import Observer, ObserverState
from flexray.run.watch.timeline import busy_units

KINDS = ("tensorboard", "mlflow", "wandb")
EVERY_S = 1.0
"""Seconds between updates of the live figures; Ray collects them every ten seconds."""


class Tracker(ABC):
    """A place that stores named series of numbers."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Store values of one round; all are finite."""

    def close(self) -> None:  # noqa: B027 - not every tracker has something to finish
        """Finish; called once, also when the run failed."""


class TrackingObserver(Observer):
    """Hands rounds and evaluations to a tracker; NaN and infinite values are left out.

    Series: ``round/train_loss``, ``round/sim_time``, ``round/sent_bytes`` (until then), ``tau/NAME``, ``lr/NAME``,
    ``waiting_share/NAME`` (of those that took part) and, at evaluations, ``eval/METRIC``. The step is the round (VAFL:
    the event).
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._names: tuple[str, ...] = ()
        self._sent_bytes = 0

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._names = record.names
        elif isinstance(record, RoundRecord):
            self._sent_bytes += record.sent_bytes
            self._log(self._of_round(record), record.round)
        elif isinstance(record, EvalRecord):
            self._log({f"eval/{name}": value for name, value in record.metrics.items()}, record.round)

    @override
    def save(self) -> ObserverState:
        return {"sent_bytes": self._sent_bytes}

    @override
    def load(self, state: ObserverState) -> None:
        self._sent_bytes = state["sent_bytes"]

    def _of_round(self, record: RoundRecord) -> dict[str, float]:
        values = {
            "round/train_loss": record.train_loss,
            "round/sim_time": record.sim_time,
            "round/sent_bytes": self._sent_bytes,
        }
        if record.timeout_units is not None:
            values["round/timeout"] = record.timeout_units
        for k in record.present:
            name = self._names[k]
            values[f"tau/{name}"] = record.tau[k]
            values[f"lr/{name}"] = record.lr[k]
            values[f"waiting_share/{name}"] = waiting_share(record, k)
        return values

    def _log(self, values: Mapping[str, float], step: int) -> None:
        self._tracker.log({name: float(v) for name, v in values.items() if math.isfinite(v)}, step)

    @override
    def close(self) -> None:
        self._tracker.close()


def waiting_share(record: RoundRecord, place: int) -> float:
    """Return the share of a round, and of the wait before it, in which a participant waited for others: 0 to 1."""
    together, lasts = record.duration - record.comm_units, record.duration + record.waited_units
    waited = max(0.0, together - busy_units(record, place)) + record.waited_units
    return waited / lasts if lasts > 0 else 0.0


def make_tracker(logger: Mapping[str, Any], folder: Path, base_dir: Path, params: Mapping[str, Any]) -> Tracker:
    """Return the chosen tracker.

    Args:
        logger: The configuration's node: ``kind`` and what belongs to it.
        folder: The run folder.
        base_dir: Folder in which the command was typed.
        params: The run's ``name`` and its configuration, flat.

    Raises:
        ConfigError: The kind is unknown, or its package is not installed.
    """
    kind = logger["kind"]
    if kind == "tensorboard":
        return TensorBoardTracker(folder, params)
    if kind == "mlflow":
        return MLflowTracker(logger["project"], logger["uri"] or f"sqlite:///{base_dir / 'mlflow.db'}", params)
    if kind == "wandb":
        return WandbTracker(logger["project"], folder, params)
    raise ConfigError(f"logger.kind: unknown logger '{kind}'{near_match(kind, ('none', *KINDS))}")


class TensorBoardTracker(Tracker):
    """Event files in ``tensorboard/`` of the run folder."""

    def __init__(self, folder: Path, params: Mapping[str, Any]) -> None:
        module = _imported("torch.utils.tensorboard", "tensorboard")
        self._writer = module.SummaryWriter(str(folder / TENSORBOARD_FOLDER), flush_secs=10)
        rows = "\n".join(f"| {key} | {value} |" for key, value in params.items())
        self._writer.add_text("configuration", f"| key | value |\n| --- | --- |\n{rows}")

    @override
    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    @override
    def close(self) -> None:
        self._writer.close()


class MLflowTracker(Tracker):
    """A run of an MLflow experiment, in the database that ``uri`` names."""

    MAX_PARAM = 500
    MAX_BATCH = 1000

    def __init__(self, project: str, uri: str, params: Mapping[str, Any]) -> None:
        mlflow = _imported("mlflow", "mlflow")
        entities = _imported("mlflow.entities", "mlflow")
        self._metric = entities.Metric
        self._waiting: list[Any] = []
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self._client.create_experiment(project)
        self._run = self._client.create_run(experiment, run_name=str(params["name"])).info.run_id
        listed = [entities.Param(key, str(value)[: self.MAX_PARAM]) for key, value in params.items()]
        for start in range(0, len(listed), 100):
            self._client.log_batch(self._run, params=listed[start : start + 100])

    @override
    def log(self, values: Mapping[str, float], step: int) -> None:
        # MLflow orders by timestamp, then by step: the step stands for both
        self._waiting += [self._metric(name, value, step, step) for name, value in values.items()]
        if len(self._waiting) >= self.MAX_BATCH:
            self._send()

    def _send(self) -> None:
        for start in range(0, len(self._waiting), self.MAX_BATCH):
            self._client.log_batch(self._run, metrics=self._waiting[start : start + self.MAX_BATCH])
        self._waiting = []

    @override
    def close(self) -> None:
        self._send()
        self._client.set_terminated(self._run)


class WandbTracker(Tracker):
    """A Weights & Biases run, offline; ``wandb sync`` uploads it from the run folder."""

    def __init__(self, project: str, folder: Path, params: Mapping[str, Any]) -> None:
        wandb = _imported("wandb", "wandb")
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_machine_info=True)
        self._run = wandb.init(
            project=project, name=str(params["name"]), dir=str(folder), mode="offline", config=dict(params),
            settings=settings, reinit="create_new",
        )  # fmt: skip

    @override
    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    @override
    def close(self) -> None:
        self._run.finish()


def _imported(module: str, package: str) -> Any:
    """Return a module, or refuse the logger that needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"logger.kind: '{package}' is not installed here; expected it by: pip install 'flexray[{package}]'"
        ) from error


class ClusterMetrics(Observer):
    """Sets rounds, tau and waiting share, and counts bytes, per party.

    Args:
        instruments: Returns, once the cluster is there, ``rounds``, ``tau``, ``waiting_share`` with a method ``set``
            and ``sent_bytes`` with ``inc``.
        run: Name of the run.
        every_s: Seconds between updates.
    """

    def __init__(self, instruments: Callable[[], Mapping[str, Any]], run: str, every_s: float = EVERY_S) -> None:
        self._get_instruments = instruments
        self._instruments: Mapping[str, Any] = {}
        self._run = run
        self._every_s = every_s
        self._names: tuple[str, ...] = ()
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._latest: dict[int, RoundRecord] = {}
        self._set_s = -math.inf

    @override
    def on(self, record: Record) -> None:
        if isinstance(record, Started):
            self._instruments = self._get_instruments()
            self._names = record.names
            self._bytes.clear()
        elif isinstance(record, RoundRecord):
            self._note(record)
            if time.monotonic() - self._set_s >= self._every_s:
                self._publish()
        elif isinstance(record, Ended):
            self._publish()

    def _note(self, record: RoundRecord) -> None:
        for direction, counts in (("up", record.up_bytes), ("down", record.down_bytes)):
            for name, count in zip(self._names, counts, strict=False):
                self._bytes[name, direction] += count
        for k in record.present:
            self._latest[k] = record

    def _publish(self) -> None:
        self._set_s = time.monotonic()
        tags = {"run": self._run}
        self._instruments["rounds"].set(max((r.round for r in self._latest.values()), default=0), tags)
        for k, record in self._latest.items():
            own = {**tags, "party": self._names[k]}
            self._instruments["tau"].set(record.tau[k], own)
            self._instruments["waiting_share"].set(waiting_share(record, k), own)
        for (name, direction), count in self._bytes.items():
            if count:
                self._instruments["sent_bytes"].inc(count, {**tags, "party": name, "direction": direction})
        self._bytes.clear()
