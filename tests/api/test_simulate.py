"""A run from Python: the numbers and files of the command, and a process that is left as it was."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

import flexray
from flexray.algorithms.flex import FlexVFL
from flexray.core.errors import ConfigError, ParticipantError, RunFolderError, UserError
from flexray.run.command import run_command
from helpers.strangers import tree

SHORT: dict[str, Any] = {"cluster": "inline", "progress": False, "rounds": 3, "model": {"hidden": [4]}}
WORDS = ("cluster=inline", "progress=false", "rounds=3", "model.hidden=[4]")
OWN = ("summary.json", ".hydra/hydra.yaml", "run.log")
"""Files that name seconds, or the folder itself."""


def test_numbers_and_files_are_those_of_the_command(tmp_path: Path) -> None:
    words = ("algo=adaptive", *WORDS, "checkpoint.every=2", f"hydra.run.dir={tmp_path / 'command'}")
    assert run_command([*words]) == 0
    run = flexray.simulate("algo=adaptive", **SHORT, checkpoint={"every": 2}, folder=tmp_path / "python")
    command = flexray.read(tmp_path / "command")
    assert run.summary["model_digest"] == command.summary["model_digest"]
    files, expected = tree(run.folder), tree(command.folder)
    assert files.keys() == expected.keys()
    assert [name for name in files if files[name] != expected[name] and name not in OWN] == []
    assert {key for key in run.summary if run.summary[key] != command.summary[key]} <= {
        "wall_s", "setup_s", "peak_memory_mb",
    }  # fmt: skip


def state_of_the_process() -> dict[str, Any]:
    log = logging.getLogger("flexray")
    return {
        "environment": dict(os.environ),
        "path": list(sys.path),
        "argv": list(sys.argv),
        "cwd": os.getcwd(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "logging": (log.level, [*log.handlers], [*log.filters], log.propagate, [*logging.getLogger().handlers]),
        "torch": (
            torch.get_num_threads(),
            torch.get_rng_state().tolist(),
            torch.are_deterministic_algorithms_enabled(),
        ),
        "collector": gc.get_threshold(),
        "hydra": (GlobalHydra.instance().hydra, HydraConfig.instance().cfg),
    }


def test_the_process_is_left_as_it_was_by_runs_and_by_refusals() -> None:
    before = state_of_the_process()
    first, second = (flexray.simulate("algo=adaptive", **SHORT) for _ in range(2))
    assert first.summary["model_digest"] == second.summary["model_digest"]
    with pytest.raises(ConfigError):
        flexray.simulate("algo=nonsense")
    assert state_of_the_process() == before


def test_a_temporary_folder_lasts_as_long_as_its_runs() -> None:
    run = flexray.simulate(**SHORT, checkpoint={"every": 1})
    folder = run.folder
    run = run.resume(rounds=4)
    gc.collect()
    assert folder.exists()
    assert run.summary["rounds"] == 4
    del run
    gc.collect()
    assert not folder.exists()


def test_a_folder_that_holds_a_run_is_refused_unless_that_run_goes_on(tmp_path: Path) -> None:
    first = flexray.simulate(**SHORT, folder=tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"folder: .*run holds a run; expected another folder"):
        flexray.simulate(**SHORT, seed=2, folder=tmp_path / "run")
    again = flexray.simulate(**SHORT, folder=tmp_path / "run", resume="auto")
    assert again.summary == first.summary
    longer = flexray.read(tmp_path / "run").resume("rounds=5")
    whole = flexray.simulate(**{**SHORT, "rounds": 5})
    assert longer.summary["resumed_from"] == 3
    assert longer.summary["model_digest"] == whole.summary["model_digest"]
    assert longer.rounds.equals(whole.rounds)


def test_a_run_works_in_another_thread_and_in_an_application_of_hydras(tmp_path: Path) -> None:
    found: list[flexray.Run] = []
    GlobalHydra.instance().hydra = app = object()  # type: ignore[assignment]
    ConfigStore.instance().store(name="schema", node={"app": "its own"})
    try:
        thread = threading.Thread(target=lambda: found.append(flexray.simulate(**SHORT)))
        thread.start()
        thread.join()
        assert GlobalHydra.instance().hydra is app
    finally:
        GlobalHydra.instance().hydra = None
        del ConfigStore.instance().repo["schema.yaml"]
    assert found[0].status == "completed"


class Interrupted(FlexVFL):
    """Ctrl-C is typed in the second round."""

    def plan(self, now: Any) -> Any:
        if now.round == 2 and self.times:
            self.times -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return super().plan(now)

    times = 1


def test_ctrl_c_ends_the_run_after_its_round_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {**SHORT, "rounds": 8}
    with pytest.raises(
        KeyboardInterrupt, match=r"stopped after round \d+; flexray\.read\('.*run'\)\.resume\(\) goes on"
    ):
        flexray.simulate(**keys, algo=Interrupted, folder="run")
    stopped = flexray.read("run", trust=True)
    assert stopped.status == "interrupted"
    assert len(stopped.rounds) == stopped.summary["rounds"] < 8
    monkeypatch.setattr(Interrupted, "times", 0)
    assert stopped.resume().summary["model_digest"] == flexray.simulate(**keys).summary["model_digest"]


MISTAKES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "a choice": (("algo=flx",), {}, "algo: unknown choice 'flx'; did you mean 'flex'?"),
    "a choice as a key": ((), {"algo": "flx"}, "algo: unknown choice 'flx'; did you mean 'flex'?"),
    "a key": ((), {"round": 3}, "round: unknown key; did you mean 'rounds'?"),
    "a key below a group": ((), {"dataset": {"batchsize": 3}}, "dataset.batchsize: unknown key; did you mean"),
    "a type": ((), {"rounds": "many"}, "rounds: expected a whole number, got 'many'"),
    "an object where none fits": ((), {"rounds": object()}, "rounds: expected a number, a text, a list or a mapping"),
    "an option": (("-m", "seed=1,2"), {}, "-m: an option of the command"),
    "a sweep": (("seed=1,2",), {}, "seed: got several values, 1,2"),
    "a key of Hydra's": (("hydra.run.dir=here",), {}, "hydra.run.dir: Hydra's own keys are the command's; folder=..."),
    "no word": ((3,), {}, "expected words such as 'algo=flex', got 3"),
    "a folder that is a file": ((), {"folder": __file__}, "test_simulate.py: cannot be made: File exists"),
    "two folders": ((), {"resume": "there", "folder": "here"}, "there is not the folder of a run"),
    "a new folder with resume=auto": (("resume=auto",), {}, "folder: expected it beside resume='auto'"),
    "no run to go on with": ((), {"resume": "nowhere"}, "nowhere is not the folder of a run"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "keys", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_that_names_it(words: tuple[Any, ...], keys: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        flexray.simulate(*words, **keys)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refused_run_leaves_its_folder_to_the_next_one(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        flexray.simulate(**{**SHORT, "lr": -1}, folder=tmp_path)
    assert "flexray: lr: expected a positive number" in (tmp_path / "run.log").read_text()
    assert flexray.simulate(**SHORT, folder=tmp_path).status == "completed"


class Failing(torch.nn.Linear):
    """Raises in its forward pass."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such thing")


def test_the_exception_of_a_class_names_the_party_and_has_its_cause() -> None:
    with pytest.raises(ParticipantError, match="upper_left failed in") as caught:
        flexray.simulate(**{**SHORT, "model": Failing})
    assert isinstance(caught.value.__cause__, KeyError)


def test_remarks_go_where_the_caller_wants_them(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.WARNING)
    keys = {**SHORT, "progress": True}
    flexray.simulate(**keys, speeds={"kind": "trace", "path": "synthetic64"}, folder=tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "the trace synthetic64 is SYNTHETIC: generated, not measured"
    ]
    log = (tmp_path / "run.log").read_text()
    assert "[flexray][INFO] flex on digits (package)" in log
    assert "[flexray][WARNING] the trace synthetic64 is SYNTHETIC" in log
