"""Attacks in disguise: numbers for names, numbers without end, links where something is written, line ends in words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flexray.core.errors import ConfigError, RunFolderError
from flexray.core.runfolder import read_yaml
from flexray.optimizers import TorchOptimizer
from flexray.report.folders import read_run
from flexray.run.command import run_command
from flexray.run.resume import find_resume
from flexray.run.save.storage import LocalStorage
from helpers.strangers import SMALL, Stranger, tree


@pytest.mark.parametrize("name", ["0.5", "1", "true", "[evil,X]"])
@pytest.mark.parametrize("key", ["optimizer.name", "+parties.upper_right.optimizer.name"])
def test_a_name_that_is_no_word_imports_nothing(
    key: str, name: str, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number such as 0.5 would become the module 0, which a folder of that name is."""
    (stranger.here / "0").mkdir()
    (stranger.here / "0" / "__init__.py").write_text("open('PWNED', 'w')", encoding="utf-8")
    monkeypatch.chdir(stranger.here)
    stranger.add(f"{key}={name}")
    stranger.assert_refused(stranger.resume, key.lstrip("+"))


@pytest.mark.parametrize("name", [0.5, 1, True, ["evil", "X"], {"evil.X": 1}, "0.5", "evil.", ".X", "a b.X"])
def test_an_optimizer_is_named_by_a_word(name: object) -> None:
    with pytest.raises(ConfigError, match=r"^optimizer\.name: expected a class of torch\.optim"):
        TorchOptimizer(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + ":".join("1" * 50_000), "expected a number of at most 100 characters"),
        ("a: 0x" + "f" * 50_000, "expected a number of at most 100 characters"),
        ("a: " + "9" * 50_000, "expected a number of at most 100 characters"),
        ("a: [" + "a," * 250_000 + "a]", "expected a configuration of at most 200000 keys and values"),
    ],
    ids=["base 60", "hexadecimal", "decimal", "many"],
)
def test_numbers_and_lists_without_end_are_refused_at_once(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=words):
        read_yaml(tmp_path / "config.yaml")


def test_dates_are_text_also_as_keys(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("2026-01-02: 2026-01-02\nlong: {a}\n".format(a="a" * 500), encoding="utf-8")
    assert read_yaml(tmp_path / "config.yaml") == {"2026-01-02": "2026-01-02", "long": "a" * 500}


def test_a_job_of_a_sweep_does_not_run_behind_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / "sweep" / "0").symlink_to(tmp_path / "elsewhere")
    words = ["-m", *SMALL, "seed=1,2", f"hydra.sweep.dir={tmp_path / 'sweep'}", "resume=auto"]
    assert run_command(words) == 2
    assert "sweep/0: is a link" in capsys.readouterr().err
    assert [*tree(tmp_path / "elsewhere")] == ["kept"]


def test_a_checkpoint_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the user's own", encoding="utf-8")
    (tmp_path / "saves").mkdir()
    (tmp_path / "saves" / "round-1.json.tmp").symlink_to(tmp_path / "file")
    LocalStorage(tmp_path / "saves").write("round-1.json", b"{}")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "the user's own"
    assert (tmp_path / "saves" / "round-1.json").read_bytes() == b"{}"


def test_notes_that_would_fill_the_memory_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "round-1.json").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(RunFolderError, match="is larger than 256 MiB"):
        LocalStorage(tmp_path).read("round-1.json")


def test_the_name_of_a_folder_is_not_an_interpolation(tmp_path: Path) -> None:
    folder = tmp_path / "${oc.env:HOME}"
    (folder / ".hydra").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"expected a folder without \$\{ in its name"):
        find_resume(os.fspath(folder), [f"resume={folder}"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_unit": "units\n\\input{secret}"}, "time_unit: expected units or seconds"),
        ({"target": float("nan")}, "target: expected a number"),
        ({"target": 10**400}, "target: expected a number"),
    ],
)
def test_a_summary_that_would_break_the_report_counts_as_damaged(
    change: dict[str, object], words: str, stranger: Stranger
) -> None:
    path = stranger.folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}), encoding="utf-8")
    assert words in read_run(stranger.folder, "run").fault


def test_a_log_of_a_stranger_does_not_go_to_the_current_folder(stranger: Stranger) -> None:
    stranger.add("logger=mlflow")
    stranger.assert_refused(stranger.resume, "logger=mlflow", "type it again")
