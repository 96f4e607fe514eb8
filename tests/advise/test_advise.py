"""Advice: trials of equal simulated time, their tables, the page, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import flexray
from flexray.advise.cli import main
from flexray.advise.variants import quickest, variants
from flexray.core.errors import ConfigError
from helpers.jobs import Compose

QUICK = ("model.hidden=[4]", "dataset.batch_size=400", "rounds=4")


def test_settings_to_try_are_other_timeouts_quicker_participants_and_free_links(compose_job: Compose) -> None:
    x = compose_job("frozen=[upper_left]").experiment  # 5, 10, 15, 20 local iterations per timeout, the server 20
    tried = variants(x.algorithm.system, x.speeds.utilization(0, 0.0), [], reads=True)
    assert [(v.kind, v.name) for v in tried] == [
        ("own", "20"), ("timeout", "5"), ("timeout", "10"), ("timeout", "40"), ("timeout", "60"),
        ("participant", "upper_right"), ("participant", "lower_left"), ("link", "all"),
    ]  # fmt: skip
    assert [v.kind for v in variants(x.algorithm.system, (0.0,) * 5, [5], reads=False)][:2] == ["own", "participant"]


def test_the_quickest_of_a_busy_machine_has_the_unit_time_of_the_quickest(compose_job: Compose) -> None:
    x = compose_job("speeds=google_mean").experiment
    system, utilization = x.algorithm.system, x.speeds.utilization(0, 0.0)
    job = compose_job("speeds=google_mean", *quickest(system, utilization, 0)).experiment
    assert job.algorithm.system.base_units[1:] == system.base_units[1:]
    assert job.algorithm.system.base_units[0] / (1 - utilization[0]) == pytest.approx(1 / (1 - min(utilization)))


def test_what_each_is_worth_is_the_time_to_the_loss_of_the_setting_itself() -> None:
    found = flexray.advise(*QUICK, timeouts=[40.0], seeds=2)
    assert found.horizon == 120
    own = next(trials for variant, trials in found.trials.items() if variant.kind == "own")
    assert found.loss == sum(trial.curve[-1][1] for trial in own) / 2
    table = found.timeouts.set_index("timeout")
    assert table.loc[20.0, ["duration", "least_tau", "most_tau"]].tolist() == [30, 5, 20]
    assert table.loc[40.0, ["duration", "least_tau", "most_tau"]].tolist() == [50, 10, 40]
    assert table.loc[20.0, ["computing", "waiting", "messages"]].tolist() == pytest.approx([2 / 3, 0, 1 / 3])
    assert found.best_timeout in (20.0, 40.0)
    assert found.participants["participant"].tolist()[-1] == "server"
    free = found.links.iloc[0]
    assert free["time_to_loss"] <= table.loc[20.0, "time_to_loss"] * 2 / 3 + 1e-9  # rounds of 20 in place of 30
    assert free["saved"] == pytest.approx(1 - free["time_to_loss"] / table.loc[20.0, "time_to_loss"])


def test_links_of_a_file_of_seconds_can_be_free_too(tmp_path: Path) -> None:
    seconds = tmp_path / "seconds.yaml"
    network = "network: {latency: 0.2, up: 1.0e+5, shared: {office: {up: 5.0e+4, parties: [1, 2]}}, jitter: 0.1}"
    seconds.write_text(f"participants: {{default: {{iteration_s: 0.01}}}}\n{network}\n", encoding="utf-8")
    found = flexray.advise(*QUICK, "speeds=measured", f"speeds.path={seconds}", "timeout=0.1", timeouts=[0.2])
    free = next(trials for variant, trials in found.trials.items() if variant.kind == "link")[0]
    own = found.timeouts.set_index("timeout").loc[0.1, "duration"]
    assert own > 0.5
    assert free.time / free.rounds == pytest.approx(0.1)
    assert "seconds" in repr(found)


def test_the_command_prints_one_page_of_times_where_nothing_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn=false", "algo=vafl", "dataset=sizes", "dataset.parties=3"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("vafl on sizes (synthetic): 3 parties\nruns of ")
    assert "nothing was trained (learn=false): which setting learns fastest is not known" in page
    assert "party_3" in page
    assert "timeout" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clock=wall"], "flexray: flexray.advise: runs of virtual time are compared; expected clock=virtual, and no"),
        (["--timeouts", "10,x"], "flexray: --timeouts: expected numbers such as 10,20, got 'x'"),
        (["--timeouts", "0"], "flexray: timeouts: expected a positive number, got 0"),
        (["--seeds", "0"], "flexray: seeds: expected a whole number of at least 1, got 0"),
        (["resume=auto"], "flexray: resume=auto: expected keys of a single run such as algo=adaptive"),
        (["algo=flexx"], "flexray: algo: unknown choice 'flexx'; did you mean 'flex'?"),
    ],
)
def test_mistakes_end_in_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(message)


def test_data_is_given_as_a_file() -> None:
    import pandas as pd

    with pytest.raises(ConfigError, match=r"dataset\.path.*: got data; flexray\.advise expects a file or folder"):
        flexray.advise(dataset={"path": pd.DataFrame({"a": [1]})})


def test_a_timeout_that_chooses_itself_is_named_and_may_be_the_settings_own() -> None:
    words = ("learn=false", "dataset=sizes", "dataset.parties=3", "rounds=4", "lr=0.1", "adaptive.A=1")
    found = flexray.advise(*words, "timeout=auto", timeouts=[10.0])
    assert found.auto_timeout == flexray.advise(*words, timeouts=[10.0]).auto_timeout != 20.0
    assert found.timeouts["timeout"].tolist() == sorted([10.0, found.auto_timeout])
    assert f"timeout=auto would begin with {found.auto_timeout:g}; it depends on adaptive.A" in repr(found)
    refused = flexray.advise(*words, "rates=static", timeouts=[10.0])
    assert refused.auto_timeout is None
    assert "timeout=auto" not in repr(refused)
