"""The experiments of the paper: they compose at both scales, share what is equal, and are made of run folders alone."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "experiments"))

import paper  # noqa: E402
import paper_runs  # noqa: E402

from helpers.typed import Typed  # noqa: E402

SEEDS = ["707412115", "1928644128", "16910772", "1263880818", "1445547577"]
CASES = [(n, d) for n, e in paper.ENTRIES.items() for s in ("small", "paper") for d in e.datasets[s]]
COUNTS = {"table2": 4, "table3": 10, "figure2": 12, "table4": 10, "figure4": 2}
"""Cells of one seed."""


@pytest.mark.parametrize(("name", "dataset"), CASES, ids=lambda text: text)
def test_every_experiment_composes(name: str, dataset: str) -> None:
    for sweep in paper.ENTRIES[name].sweeps_of(dataset):
        chosen = f"+experiment=[{','.join([*paper_runs.BASES[dataset], *sweep])}]"
        composed = paper_runs.compose([chosen])
        choices = composed.hydra.runtime.choices
        assert choices.dataset == {"modelnet10": "bundle"}.get(dataset, dataset)
        seeds = composed.hydra.sweeper.params.get("seed", SEEDS[0])
        assert str(seeds).split(",") == (SEEDS[:1] if "grid" in name else SEEDS)


@pytest.mark.parametrize("name", COUNTS)
def test_cells_are_the_paper_s_with_five_seeds(name: str) -> None:
    cells = paper.cells_of(name, "digits", Path("runs"), None)
    assert len({cell.folder for cell in cells}) == len(cells) == 5 * COUNTS[name]
    assert {cell.folder.name for cell in cells} == set(SEEDS)


def test_equal_cells_are_one_run() -> None:
    found = {n: {c.folder for c in paper.cells_of(n, "digits", Path("runs"), None, ["seed=1"])} for n in COUNTS}
    assert len(found["table3"] & found["figure2"]) == 6  # all but VAFL at t_comm 10
    assert len(found["table3"] & found["table4"]) == 1  # Sync-Max with a timeout of 20; Flex has another rate there
    assert not found["figure4"] & found["table3"]


def test_the_settings_are_the_paper_s() -> None:
    def composed(name: str, dataset: str) -> dict[str, object]:
        words = [
            w for w in paper.cells_of(name, dataset, Path("runs"), None, ["seed=1"])[0].overrides if "cluster" not in w
        ]
        x = paper_runs.compose(words)
        return {"t_comm": x.network.t_comm, "timeout": x.timeout, "target": x.target, "B": x.dataset.batch_size}

    assert composed("table3", "mosei") == {"t_comm": 10, "timeout": 20, "target": 0.65, "B": 50}
    assert composed("table3", "imagenet100") == {"t_comm": 10, "timeout": None, "target": 0.60, "B": 256}
    assert composed("table4", "modelnet40") == {"t_comm": 10, "timeout": 20, "target": 0.70, "B": 64}
    assert composed("figure4", "modelnet40") == {"t_comm": 1, "timeout": 10, "target": 0.70, "B": 64}
    assert composed("figure4", "mosei") == {"t_comm": 1, "timeout": 20, "target": 0.65, "B": 50}


def test_a_table_and_its_figure_come_out_byte_identical_from_run_folders_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["table4", "--out", str(tmp_path / "out"), "--only", "digits", "seed=1", "rounds=2", "timeout=20"]
    cells = paper.cells_of("table4", "digits", tmp_path / "out" / "runs" / "small", None, words[5:])
    for cell in paper.cells_of("table3", "digits", tmp_path / "out" / "runs" / "small", None, words[5:7]):
        if cell.axes.get("algo") == "sync_max":  # table4 has the same cell, but says its timeout of 20
            paper_runs.run_one(cell)
    assert [cell.done for cell in cells] == [False, True]
    paper_runs.run_one(cells[0])
    monkeypatch.setattr(paper_runs, "run_one", None)  # nothing is run from here on
    made = []
    for _ in range(2):
        assert paper.main(words) == 0
        made.append({p.name: p.read_bytes() for p in (tmp_path / "out" / "table4-digits").iterdir()})
    assert made[0] == made[1]
    assert {"table.md", "table.csv", "table.tex", "target_by_time.svg", "target_by_time.png"} <= set(made[0])
    assert "as the paper: 30" in made[0]["table.md"].decode()
    assert "as the paper: 90" in made[0]["table.md"].decode()


@pytest.mark.parametrize("page", ["docs/paper.md", "experiments/README.md"])
def test_the_long_commands_of_the_guides_are_understood(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(paper, "_entry", lambda name, options, extra: asked.append(name) or 0)
    text = (ROOT / page).read_text(encoding="utf-8")
    commands = [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("python experiments/paper.py ")]
    assert len(commands) >= 5
    for words in commands:
        asked.clear()
        assert paper.main(words) == 0
        assert asked


def test_runs_that_are_missing_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper.main(["table2", "--make", "--out", str(tmp_path), "--only", "digits"]) == 1
    assert "20 of 20 runs are missing" in capsys.readouterr().err


def test_data_that_is_missing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper.main(["table3", "--data", str(tmp_path), "--only", "mosi"]) == 2
    assert capsys.readouterr().err == f"flexray: --data: expected a folder with mosi/ in it, got {tmp_path}\n"


def test_the_best_of_a_grid_has_the_lowest_training_loss(tmp_path: Path) -> None:
    cells = paper.cells_of("grid", "digits", tmp_path, None, ["rounds=2", "model=linear", "algo=pbcd"])
    cells = [cell for cell in cells if cell.axes["lr"] in ("0.003", "0.1")]
    for cell in cells:
        paper_runs.run_one(cell)
    table = paper.make_best("grid", "digits", cells, tmp_path / "best")
    rows = (tmp_path / "best" / "grid.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "algo,optimizer.l2,lr,train_loss,test_metric"
    losses = {tuple(row.split(",")[1:3]): float(row.split(",")[3]) for row in rows[1:]}
    best = min(losses, key=lambda key: losses[key])
    assert len(losses) == 4
    assert f"optimizer.l2={best[0]} lr={best[1]}" in table


def test_figure_3_is_drawn_byte_identical(tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        assert paper.main(["figure3", "--out", str(tmp_path)]) == 0
        made.append({p.name: p.read_bytes() for p in (tmp_path / "figure3").iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {"cpu.svg", "cpu.png"}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("timeot=3", "timeot: unknown key; did you mean 'timeout'?"),
        ("timeout=20,", "timeout=20,: cannot be read"),
        ("algo=flx", "algo: unknown choice 'flx'; did you mean 'flex'?"),
    ],
)
def test_mistakes_end_in_one_line(word: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper.main(["table4", "--only", "digits", "--out", str(tmp_path), word]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"flexray: {told}")
    assert said.count("\n") == 1


def command(folder: Path, *words: str) -> Typed:
    """Start the command, with two runs, in a process of its own."""
    words = ("table4", "--only", "digits", "--out", "out", "seed=1", "timeout=20", *words)
    return Typed([str(ROOT / "experiments" / "paper.py"), *words], folder)


def test_a_value_that_the_runs_refuse_ends_in_one_line(tmp_path: Path) -> None:
    refusal = "flexray: epochs: expected a positive number, got -1\n"
    assert command(tmp_path, "epochs=-1").end() == (2, "", refusal)


def test_a_run_that_fails_is_named_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["seed=1", "timeout=20", "rounds=1", "model._target_=torch.nn.Linear", "+model.out_features=5"]
    cell = paper.cells_of("table4", "digits", tmp_path, None, [*words, "+model.in_features=7"])[0]
    outcome = paper_runs.run_one(cell)
    assert not cell.done
    assert outcome.exit_status == 1
    assert "upper_left failed in " in outcome.fault
    assert capsys.readouterr() == ("", "")


TELLING = """
import os
from torch import nn


class Telling(nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features)
        with open("begun", "w") as pipe:
            pipe.write("a run has begun")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_command(number: signal.Signals, tmp_path: Path) -> None:
    """Pipes to its output end when the last process that holds them has."""
    (tmp_path / "telling.py").write_text(TELLING, encoding="utf-8")
    os.mkfifo(tmp_path / "begun")
    begun = os.open(tmp_path / "begun", os.O_RDWR)
    process = command(tmp_path, "model._target_=telling.Telling", "~model.hidden", "epochs=1000000")
    told, _, _ = select.select([begun], [], [], 60)
    process.send_signal(number if told else signal.SIGKILL)
    status, out, said = process.end(60)
    os.close(begun)
    assert told, said
    if number == signal.SIGKILL:
        assert status == -number
    else:
        assert (status, out) == (130, "")
        assert said == "flexray: interrupted; the same command does what is missing\n"


def test_an_interrupted_run_is_not_done(tmp_path: Path) -> None:
    cell = paper_runs.Cell((), {}, tmp_path)
    assert not cell.done
    for status, done in (("interrupted", False), ("failed", False), ("diverged", True), ("completed", True)):
        (tmp_path / "summary.json").write_text(f'{{"status": "{status}"}}', encoding="utf-8")
        assert cell.done is done
