"""Runs read with another communication time, another charge for a round, or fewer evaluations.

The results of a synchronous algorithm do not depend on the length of its rounds: another ``t_comm`` changes the time
axis only, so one run serves all communication times. VAFL's events would come in another order, so it is refused.

Shapes: r = rounds, e = evaluations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flexray.core.errors import DataError
from flexray.report.runs import FloatArray, Run


def with_comm_time(run: Run, t_comm: float) -> Run:
    """Return a run with another communication time: every round is longer by the difference.

    Args:
        run: A run of a synchronous algorithm on the virtual clock, with one ``network.t_comm`` for all parties.
        t_comm: Round-trip units, at least 0.

    Raises:
        DataError: The run's numbers depend on its times, or these are not known.
    """
    old = run.config.get("network.t_comm")
    if isinstance(old, bool) or not isinstance(old, (int, float)):
        raise DataError(f"{run.name}: network.t_comm: expected one number for all parties, got {old!r}")
    if not 0 <= t_comm < float("inf"):
        raise DataError(f"t_comm: expected a number of at least 0, got {t_comm:g}")
    _refuse_dependence(run)
    dummies = int(run.text("algo") == "adaptive" and run.config.get("adaptive.first") == "dummy")
    return _moved(run, t_comm - old, dummies, {"network.t_comm": t_comm})


def with_round_charge(run: Run, units: float) -> Run:
    """Return a run with rounds of ``units`` each.

    Raises:
        DataError: The run is not one of rounds on the virtual clock.
    """
    _refuse_turns(run)
    series, evals = run.series, run.evals
    if series is None or evals is None:
        return run
    times_r, times_e = series.number_r * units, evals.round_e * units
    return replace(run, series=replace(series, time_r=times_r), evals=replace(evals, time_e=times_e))


def at_equal_times(run: Run, units: float) -> Run:
    """Return a run with those of its evaluations that ``eval_every_units`` would have made.

    These are the first one at or after each multiple of ``units``, and the last.
    """
    evals = run.evals
    if evals is None or not len(evals.time_e):
        return run
    multiple_e = np.floor(evals.time_e / units * (1 + 1e-12))
    kept_e = np.diff(multiple_e, prepend=-1.0) > 0
    kept_e[-1] = True
    metrics = {name: values_e[kept_e] for name, values_e in evals.metrics.items()}
    times = (evals.round_e[kept_e], evals.time_e[kept_e], evals.sent_bytes_e[kept_e])
    return replace(run, evals=replace(evals, round_e=times[0], time_e=times[1], sent_bytes_e=times[2], metrics=metrics))


def _refuse_turns(run: Run) -> None:
    if run.series is not None and run.series.by_turns:
        raise DataError(f"{run.name}: {run.text('algo')} has turns, not rounds, whose order depends on their times")
    if run.time_unit != "units":
        raise DataError(f"{run.name}: its times are in {run.time_unit}; expected a run on the virtual clock")


def _refuse_dependence(run: Run) -> None:
    """Refuse runs whose rounds depend on their times."""
    _refuse_turns(run)
    config = run.config
    if config.get("max_time") is not None:
        raise DataError(f"{run.name}: max_time is {config['max_time']}, so its length depends on its times")
    if config.get("eval_every_units") is not None:
        raise DataError(f"{run.name}: eval_every_units, so when it is evaluated depends on its times")
    if config.get("speeds.kind") == "trace" and config.get("speeds.advance") == "time":
        raise DataError(f"{run.name}: speeds.advance=time, so its speeds depend on its times")
    if any(config.get(key) for key in config if key.startswith("absence.")):
        raise DataError(f"{run.name}: absence.*, so no round waits for the links of absent parties")
    if config.get("speeds.kind") == "replay":
        raise DataError(f"{run.name}: speeds=replay, so its times are those of another run")


def _moved(run: Run, by_units: float, dummies: int, config: dict[str, float]) -> Run:
    """Return the run with every round, and what was timed before the first, longer by ``by_units``."""
    series, evals = run.series, run.evals
    if series is not None:
        series = replace(series, time_r=_later(series.time_r, series.number_r, by_units, dummies))
    if evals is not None:
        evals = replace(evals, time_e=_later(evals.time_e, evals.round_e, by_units, dummies))
    return replace(run, series=series, evals=evals, config={**run.config, **config})


def _later(time_n: FloatArray, round_n: FloatArray, by_units: float, dummies: int) -> FloatArray:
    """Return times after ``round_n`` rounds, each longer by ``by_units``; before the first nothing was timed."""
    return time_n + by_units * (round_n + dummies * (round_n > 0))
