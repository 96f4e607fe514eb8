"""Predictions without a party: what stands in for its embeddings, and which accuracy is left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flexray
from flexray.predict import load_job, run_command
from flexray.run.predictor import Predictor
from helpers.predictions import table

QUIET = ("cluster=inline", "progress=false", "epochs=2", "model.hidden=[8]", "eval_every=20")


@pytest.fixture
def finished(run_once: Callable[..., Path]) -> Path:
    return run_once(*QUIET)


def accuracy(file: Path) -> float:
    return float(np.mean([row["prediction"] == row["label"] for row in table(file)]))


def test_the_accuracy_that_is_left_is_said(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.csv"
    assert run_command([str(finished), "--without", "lower_left", "--without", "1", "-o", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"359 predictions in {out} (of 1797 samples: those of the test split; --split all for all)"
    top1 = [float(found) for line in said[1:] for found in re.findall(r"test_top1 ([0-9.]+)", line)]
    assert said[1].startswith("without lower_left, 1: test_loss ")
    assert said[2].startswith("with all parties: test_loss ")
    final = json.loads((finished / "summary.json").read_text(encoding="utf-8"))["final"]["test_top1"]
    assert top1 == pytest.approx([accuracy(out), final], abs=5e-5)
    assert top1[0] < top1[1]
    run = flexray.read(finished)
    left = run.predict(without=["lower_left", "upper_left"])
    assert left["prediction"].astype(str).tolist() == [row["prediction"] for row in table(out)]
    assert run.predict(without="lower_left")["prediction"].tolist() != left["prediction"].tolist()


def test_what_stands_in_is_that_of_the_run(run_once: Callable[..., Path]) -> None:
    """Zeros, or what the party and the server remember, also in a run in which nobody lacked a sample."""
    for kind, missing in (("zeros", 0), ("mean", 0), ("last", 0.2), ("learned", 0.2)):
        folder = run_once(
            *QUIET[:2], "rounds=4", f"missing.stand_in={kind}", f"missing.fraction={missing}", "missing.test_fraction=0"
        )
        job = load_job(folder)
        model = Predictor(job, folder / "checkpoints" / "final", {1})
        block = model._group.embed_split("test").blocks[1]
        assert (block == block[0]).all()
        assert block.any() == (kind in ("mean", "last"))
        learned = model._server.head._parameters.get("stand_in")
        assert (learned is not None and bool(learned.any())) == (kind == "learned")
        plain = Predictor(job, folder / "checkpoints" / "final").metrics("test")
        final = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["final"]
        assert plain == {key: final[key] for key in plain}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--without", "lower"], "--without: unknown participant 'lower'; "),
        (["--without", "server"], "--without: unknown participant 'server'; "),
        (["--without", "5"], "--without: unknown participant '5'; "),
        (
            [*["--without", "1", "--without", "2", "--without", "3", "--without", "4"]],
            "--without: all parties are gone; expected",
        ),
    ],
)
def test_nobody_else_can_be_gone(
    words: list[str], told: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([str(finished), *words, "-o", str(tmp_path / "p.csv")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_a_strangers_vector_of_another_width_is_refused(finished: Path) -> None:
    job = load_job(finished)
    party = Predictor(job, finished / "checkpoints" / "final")._group.parties[0]
    with pytest.raises(flexray.UserError, match="upper_left"):
        party.set_state({**party.get_state(), "stand_in": np.zeros(3, np.float32)})
