"""The command line: ``python -m flexray.run [algo=...] [key=value ...]``, Hydra 1.3 syntax, ``-m`` sweeps."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from flexray import config
from flexray.complaints import HYDRA_ERRORS, explain, one_line, place_of
from flexray.errors import FlexrayError, ParticipantError, UserError
from flexray.overrides import check_keys, choice, own_keys, prepare

log = logging.getLogger("flexray")


def main() -> None:
    """Run the command line and exit with 0, 2 for a mistake of the user, 1 for anything else that went wrong."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command, single or sweep, and return its exit status."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises instead of printing and exiting: we explain in one line
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's own module, also for the console script and with hydra.job.chdir
    config.register()
    session = Session()
    saved = sys.argv
    try:
        sys.argv = [saved[0], *prepare(arguments)]
        hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")(session.run_job)()
    except UserError as error:
        _print_error(str(error))
        return error.exit_status
    except HYDRA_ERRORS as error:
        _print_error(explain(error, config_folder(), arguments))
        return UserError.exit_status
    except SystemExit as end:  # --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        _print_error("interrupted")
        return 130
    finally:
        sys.argv = saved
        session.close()
    return session.exit_status


def config_folder() -> Path:
    """Return the folder of configuration files, in an installed package or in the source tree."""
    package = Path(__file__).resolve().parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parents[1] / "conf"


class Session:
    """The jobs of one command: one, or all of a sweep, which share a Ray cluster."""

    def __init__(self) -> None:
        self.exit_status = 0
        self._summaries: list[dict[str, Any]] = []
        self._overrides: list[list[str]] = []
        self._cluster: Any = None
        self._sweeping = False

    def run_job(self, cfg: DictConfig) -> None:
        """Run one job; report its failure at once and let the next one go on."""
        chosen = HydraConfig.get()
        self._sweeping = chosen.mode is not None and chosen.mode.name == "MULTIRUN"
        try:
            summary = self._run(cfg, chosen)
            self._summaries.append(summary)
            if summary["status"] != "completed":
                self.exit_status = max(self.exit_status, 1)
        except FlexrayError as error:
            self._fail(str(error), error.exit_status, error.trace if isinstance(error, ParticipantError) else "")
        except OmegaConfBaseException as error:
            self._fail(explain(error, config_folder()), UserError.exit_status)
        except Exception as error:  # noqa: BLE001 - told in full, and the other jobs of a sweep go on
            self._fail(place_of(error), 1, traceback.format_exc())

    def _fail(self, line: str, exit_status: int, trace: str = "") -> None:
        """Tell once why a job failed: in one line, after the traceback if there is one."""
        self.exit_status = max(self.exit_status, exit_status)
        if trace:
            log.error("%s", trace.rstrip())
        log.error("flexray: %s", one_line(line))

    def _run(self, cfg: DictConfig, chosen: Any) -> dict[str, Any]:
        from flexray.build import build
        from flexray.observers.folder import ModelObserver, TableObserver
        from flexray.observers.summary import SummaryObserver, summary_table, write_summary
        from flexray.observers.terminal import ProgressObserver, announce_end
        from flexray.observers.timeline import TimelineObserver

        started_s = time.perf_counter()
        plain: Any = OmegaConf.to_container(cfg, resolve=True)
        check_keys(plain)
        plain = own_keys(plain, chosen.overrides.task)
        choices = chosen.runtime.choices
        job = build(plain, choice(choices, "algo"), choice(choices, "dataset"), Path(chosen.runtime.cwd))
        folder = Path(chosen.runtime.output_dir)
        x = job.experiment
        if x.shared.outline.source == "synthetic":
            log.warning("the data is SYNTHETIC: a stand-in, since dataset.path is not given")
        summaries = SummaryObserver(job)
        observers = [
            summaries,
            TableObserver(folder),
            TimelineObserver(folder, job.timeline_rounds),
            ModelObserver(folder),
        ]
        if job.progress:
            observers.append(ProgressObserver(x.target.metric, x.limits.max_time))
        setup_s = 0.0
        try:
            for record in self._records(job):
                setup_s = setup_s or time.perf_counter() - started_s
                for observer in observers:
                    observer.on(record)
        finally:
            for observer in observers:
                observer.close()
        if summaries.ended is None:
            raise RuntimeError("the driver ended without its last record")
        announce_end(summaries.ended)
        summary = summaries.summary(time.perf_counter() - started_s, setup_s)
        write_summary(folder, summary)
        Console().print(summary_table(summary, folder))
        return summary

    def _records(self, job: Any) -> Iterator[Any]:
        if job.cluster.kind == "inline":
            from flexray.driver import make_driver
            from flexray.runtime.inprocess import InProcess, borrowed_torch

            with borrowed_torch():
                yield from make_driver(job.experiment, InProcess(), job.cluster.placement).run()
            return
        if self._cluster is None:
            from flexray.runtime.ray_runtime import RayCluster

            self._cluster = RayCluster()
        yield from self._cluster.run(job.cluster, job.experiment)

    def close(self) -> None:
        """Print the table of a sweep and leave the cluster."""
        if self._cluster is not None:
            self._cluster.close()
        if self._sweeping and self._summaries:
            from flexray.sweep import sweep_table

            Console().print(sweep_table(self._summaries))


def _print_error(line: str) -> None:
    print(f"flexray: {one_line(line)}", file=sys.stderr)


if __name__ == "__main__":
    main()
