"""TensorBoard, MLflow and Weights & Biases; each is imported only if it was chosen (``logger=...``)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from flexray.core.errors import ConfigError, near_match
from flexray.run.watch.tracking import Tracker

KINDS = ("tensorboard", "mlflow", "wandb")


def make_tracker(logger: Mapping[str, Any], folder: Path, base_dir: Path, params: Mapping[str, Any]) -> Tracker:
    """Return the chosen tracker.

    Args:
        logger: The configuration's node: ``kind`` and what belongs to it.
        folder: The run folder.
        base_dir: Where the command was typed.
        params: What to call the run by, ``name``, and its configuration, flat.

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
        self._writer = module.SummaryWriter(str(folder / "tensorboard"), flush_secs=10)
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
        self._kept: list[Any] = []
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
        self._kept += [self._metric(name, value, step, step) for name, value in values.items()]
        if len(self._kept) >= self.MAX_BATCH:
            self._send()

    def _send(self) -> None:
        for start in range(0, len(self._kept), self.MAX_BATCH):
            self._client.log_batch(self._run, metrics=self._kept[start : start + self.MAX_BATCH])
        self._kept = []

    @override
    def close(self) -> None:
        self._send()
        self._client.set_terminated(self._run)


class WandbTracker(Tracker):
    """A Weights & Biases run, offline: ``wandb sync`` uploads it from the run folder if one wants to."""

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
    """Return a module, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"logger.kind: '{package}' is not installed here; expected it by: pip install 'flexray[{package}]'"
        ) from error
