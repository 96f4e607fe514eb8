"""``learn=false``: the rounds and the schedule of the trained run, and nothing trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flexray.core.errors import ConfigError
from flexray.core.messages import Ended, EvalRecord, RoundRecord, Started
from flexray.report.folders import read_run
from flexray.run.command import run_command
from helpers.jobs import Compose, Run

QUIET = ("progress=false", "dataset.batch_size=700", "eval_train=false", "model.hidden=[4]")
LINKS = "network.latency=1 network.up=30000 network.shared={wan:{up:50000}} network.jitter=0.3 network.loss=0.1"
SETTINGS = {
    "flex": "algo=flex rounds=5",  # 1,258 samples: every second batch is shorter
    "adaptive": "algo=adaptive rounds=5 speeds=trace absence.probability=.4 adaptive.first=dummy optimizer.momentum=.5",
    "adaptive, published": "algo=adaptive adaptive.weighted=false speeds=trace rounds=4",
    "sync_min": "algo=sync_min rounds=4 labels_at=server network.bits=4 network.top_k=0.3",
    "sync_max": "algo=sync_max rounds=4 frozen=[upper_left] lr_decay.milestones=[30] dtype=float64",
    "pbcd": "algo=pbcd max_time=70 speeds=google_mean network.bandwidth=90000",
    "links": f"algo=flex rounds=4 absence.probability=0.2 {LINKS}",
    "turns on links": f"algo=vafl rounds=20 {LINKS}",
    "efvfl": "algo=efvfl rounds=4 absence.sample=3",
    "missing": "algo=flex rounds=4 missing.fraction=[0.4,0,0.9,0] missing.stand_in=learned network.bits=4",
    "labels at a party": "algo=flex rounds=4 labels_at=lower_left network.bandwidth=90000",
    "vafl, labels at a party": "algo=vafl rounds=15 labels_at=2 network.t_comm=[1,2,3,4]",
    "a party with labels alone": "algo=adaptive rounds=4 labels_at=+clinic network.bandwidth=90000 network.bits=4",
    "vafl, a party with labels alone": "algo=vafl rounds=15 labels_at=+clinic network.t_comm=[1,2,3,4,9]",
    "vafl": "algo=vafl rounds=30 speeds=trace speeds.advance=time speeds.sample_units=7 network.bits=3",
}
OWN_WIDTHS = {
    "upper_left": {"model": {"_target_": "flexray.models.MLP", "out_features": 5}},
    "lower_right": {
        "model": {"_target_": "torch.nn.Flatten"},
        "optimizer": {"_target_": "flexray.optimizers.LocalSGD"},
    },
}


@pytest.mark.parametrize("name", [*SETTINGS, "widths of their own"])
def test_rounds_are_those_of_the_trained_run(name: str, compose_job: Compose, run_inline: Run) -> None:
    words = [*QUIET, *SETTINGS.get(name, "rounds=3 frozen=[lower_right]").split()]
    own = {} if name in SETTINGS else {"parties": OWN_WIDTHS}
    trained = [r for r in run_inline(compose_job(*words, **own)) if isinstance(r, RoundRecord)]
    records = run_inline(compose_job(*words, "learn=false", **own))
    assert not [r for r in records if isinstance(r, EvalRecord)]
    found = [r for r in records if isinstance(r, RoundRecord)]
    assert all(r.train_loss != r.train_loss for r in found)
    assert [replace(r, train_loss=0.0) for r in found] == [replace(r, train_loss=0.0) for r in trained]
    assert isinstance(records[0], Started)
    assert isinstance(records[-1], Ended)
    assert records[-1].digests == records[-1].states == {}
    assert records[-1].sim_time == trained[-1].sim_time


def test_the_command_says_that_nothing_is_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rounds=3", "learn=false", "target=0.9", f"hydra.run.dir={tmp_path}"]  # cluster=local needs no Ray then
    assert run_command(words) == 0
    said = capsys.readouterr().out
    assert "nothing is trained; planning 3 rounds, 20 rounds an epoch" in said
    assert "target: not used with learn=false" in said
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["learn"], summary["final"], summary["model_digest"], summary["target"]) == (False, {}, {}, None)
    assert (summary["sim_time"], summary["sent_bytes"], summary["cluster"]["kind"]) == (90.0, 553_440, "inline")
    assert not (tmp_path / "checkpoints").exists()
    assert read_run(tmp_path, "it").length == 3
    assert run_command([f"resume={tmp_path}", "rounds=6"]) == 2
    assert "resume: a run with learn=false has nothing to go on from; expected a new one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clock=wall", "timeout=0.1"], "learn: clock=wall measures the seconds of training; expected true, or clock"),
        (
            ["stop_at_target=true"],
            "stop_at_target: nothing is learned with learn=false; expected rounds, epochs or max",
        ),
    ],
)
def test_what_needs_training_is_refused(words: list[str], message: str, compose_job: Compose) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_job("learn=false", *words)


def test_a_system_without_data_of_thousands_of_parties(compose_job: Compose, run_inline: Run) -> None:
    words = ["dataset=sizes", "dataset.parties=5000", "embedding=4", "rounds=2", "speeds=google_mean"]
    *_, last, _ = run_inline(compose_job(*words, "learn=false"))
    assert isinstance(last, RoundRecord)
    assert last.tau[:3] == last.tau[12:15] == (12, 16, 17)
    assert last.up_bytes == (64 * 4 * 8,) * 5000


def test_a_report_has_the_costs_of_the_whole_run(tmp_path: Path) -> None:
    words = ("cluster=inline", *QUIET, "learn=false", "rounds=2", "costs.joules_per_unit=2")
    assert run_command([*words, f"hydra.run.dir={tmp_path}"]) == 0
    assert read_run(tmp_path, "run").costs() == {"energy_joules": 2 * 2 * 5 * 20.0}
