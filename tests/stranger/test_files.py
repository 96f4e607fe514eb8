"""Files of a run folder that are something else: links, pipes, devices, folders, bombs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flexray.core.runfolder import FILES, check_files
from flexray.run.command import run_command
from helpers.strangers import SMALL, Stranger, tree

PLACES = (
    *FILES, ".hydra", "checkpoints", "checkpoints/final", ".hydra/config.yaml", ".hydra/overrides.yaml",
    ".hydra/hydra.yaml", ".hydra/config.yaml.tmp", "checkpoints/round-2.json", "checkpoints/round-2.safetensors",
    "checkpoints/round-3.json.tmp", "checkpoints/address.txt", "checkpoints/final/server.safetensors",
    "checkpoints/final/upper_left.tmp", "checkpoints/probe.tmp", "tensorboard", "wandb",
)  # fmt: skip


def clear(path: Path) -> Path:
    """Move away what is at a path, and return where it is then."""
    kept = next(parent for parent in path.parents if parent.name == "here") / "kept"
    if path.exists():
        path.rename(kept)
    else:
        kept.write_text("the user's own", encoding="utf-8")
    return kept


def link(path: Path) -> None:
    path.symlink_to(clear(path))


def dangling(path: Path) -> None:
    clear(path)
    path.symlink_to(path.parent / "nowhere")


def device(path: Path) -> None:
    clear(path)
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    clear(path)
    os.mkfifo(path)


def other(path: Path) -> None:
    """Put a folder in place of a file, or a file in place of a folder."""
    if clear(path).is_dir() or path.name in ("checkpoints", "final", "tensorboard", "wandb"):
        path.write_text("", encoding="utf-8")
    else:
        path.mkdir()


@pytest.mark.parametrize("change", [link, dangling, device, pipe, other])
@pytest.mark.parametrize("place", PLACES)
def test_only_plain_files_and_folders_are_read_and_written(
    place: str, change: Callable[[Path], None], stranger: Stranger
) -> None:
    change(stranger.folder / place)
    stranger.assert_refused(stranger.resume, place)


def test_links_that_wandb_makes_stay_but_lead_nowhere_else(stranger: Stranger) -> None:
    (stranger.folder / "wandb" / "offline-run-1").mkdir(parents=True)
    (stranger.folder / "wandb" / "latest-run").symlink_to("offline-run-1")
    check_files(stranger.folder)
    (stranger.folder / "wandb" / "debug.log").symlink_to(stranger.here / "evil.py")
    stranger.assert_refused(stranger.resume, "wandb/debug.log")


@pytest.mark.parametrize("place", ["summary.json", "configuration.json", "checkpoints/final/server.safetensors"])
def test_predict_reads_no_links(place: str, stranger: Stranger) -> None:
    link(stranger.folder / place)
    stranger.assert_refused(stranger.predict, place)


@pytest.mark.parametrize("place", ["run.log", "rounds.csv", "checkpoints", ".hydra/config.yaml"])
@pytest.mark.parametrize("auto", [["resume=auto"], []])
def test_no_run_begins_in_a_folder_with_links(auto: list[str], place: str, stranger: Stranger) -> None:
    link(stranger.folder / place)
    stranger.assert_refused(lambda: run_command([*SMALL, f"hydra.run.dir={stranger.folder}", *auto]), place)


@pytest.mark.parametrize("place", ["multirun.yaml", "0/run.log"])
def test_no_job_of_a_sweep_begins_in_a_folder_with_links(place: str, stranger: Stranger) -> None:
    sweep = stranger.here / "sweep"
    (sweep / "0").mkdir(parents=True)
    link(sweep / place)
    before = tree(stranger.here)
    stranger.said()
    assert run_command(["-m", *SMALL, "seed=1", f"hydra.sweep.dir={sweep}", "resume=auto"]) == 2
    assert f"{place.rpartition('/')[2]}: cannot be written: is a link" in stranger.said()[1]
    after = tree(stranger.here)
    assert {name: after[name] for name in before} == before
    assert not (sweep / "0" / "rounds.csv").exists()


@pytest.mark.parametrize("name", ["rounds.csv", "summary.json"])
def test_no_links_are_replayed(name: str, stranger: Stranger) -> None:
    link(stranger.folder / name)
    act = ["speeds=replay", f"speeds.path={stranger.folder}", f"hydra.run.dir={stranger.here.parent / 'new'}"]
    assert run_command([*SMALL, *act]) == 2
    assert "is no plain file" in stranger.said()[1]


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]\n" for k in range(1, 60))
LEVELS = "expected a configuration of at most 60 levels, without references"
TEXTS = {
    (".hydra/hydra.yaml", BOMB): LEVELS,
    (".hydra/hydra.yaml", "hydra: &a {runtime: *a}"): LEVELS,
    (".hydra/hydra.yaml", f"hydra: {'[' * 500}{']' * 500}"): LEVELS,
    (".hydra/hydra.yaml", "hydra: {runtime: {cwd: !!python/object/apply:os.getcwd []}}"): "expected no tag",
    (".hydra/hydra.yaml", "hydra: {runtime: {cwd: [a]}}"): "hydra.runtime.cwd: expected a folder",
    (".hydra/hydra.yaml", f"hydra: {{runtime: {{cwd: {'a' * 300}}}}}"): "hydra.runtime.cwd: expected a folder",
    (".hydra/hydra.yaml", "hydra: 5"): "hydra.runtime.cwd: expected a folder",
    (".hydra/hydra.yaml", "\x00"): "is not plain YAML",
    (".hydra/overrides.yaml", "- &a [*a]"): LEVELS,
    (".hydra/overrides.yaml", "[" * 100_000): "is not plain YAML",
    (".hydra/overrides.yaml", "{a: 1}"): "expected a list",
    (".hydra/overrides.yaml", "- {a: 1}"): "expected a list of overrides",
    (".hydra/overrides.yaml", "x" * (5 << 20)): "is larger than 4 MiB",
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS, ids=str)
def test_yaml_that_is_no_record_is_refused_at_once(case: tuple[str, str], stranger: Stranger) -> None:
    place, text = case
    (stranger.folder / place).write_text(text, encoding="utf-8")
    stranger.assert_refused(stranger.resume, TEXTS[case])


@pytest.mark.parametrize("name", ["summary.json", "configuration.json"])
@pytest.mark.parametrize(
    "text", ['{"a": ' + "[" * 10_000 + "]" * 10_000 + "}", "[" * 10_000, "[]", '{"a": 1' + "0" * 5000 + "}"]
)
def test_json_that_is_no_record_is_refused_at_once(name: str, text: str, stranger: Stranger) -> None:
    (stranger.folder / name).write_text(text, encoding="utf-8")
    stranger.assert_refused(stranger.predict, name)


@pytest.mark.parametrize("name", ["checkpoints/round-2.json", "checkpoints/round-2.safetensors"])
@pytest.mark.parametrize("size", [1 << 42, 0])
def test_a_file_larger_than_memory_or_empty_is_no_checkpoint(name: str, size: int, stranger: Stranger) -> None:
    os.truncate(stranger.folder / name, size)
    assert stranger.resume() == 2
    out, err = stranger.said()
    assert out == ""
    assert err.count("\n") == 1
    assert "no checkpoint can be used, of rounds [2]" in err


@pytest.mark.parametrize("place", ["rounds.csv", "summary.json", ".hydra", "checkpoints/final", "configuration.json"])
def test_what_cannot_be_written_is_told_before_anything_is_computed(
    place: str, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: access(path, mode) and Path(path) != stranger.folder / place)
    stranger.assert_refused(stranger.resume, place, "cannot be written")
    check_files(stranger.folder, writes=False)


@pytest.mark.parametrize("text", ["..", "../other", ".hidden", "a/b", "", "a::b", "x" * 5000, "a\nb", "s3://x"])
def test_the_name_under_which_checkpoints_are_elsewhere_is_a_plain_one(text: str, stranger: Stranger) -> None:
    (stranger.folder / "checkpoints" / "address.txt").write_text(text, encoding="utf-8")
    place = stranger.here / "elsewhere"
    before = tree(stranger.here)
    assert stranger.resume(f"checkpoint.dir={place}") == 2
    assert "address.txt" in stranger.said()[1]
    assert {k: v for k, v in tree(stranger.here).items() if k != "run/run.log"} == {
        k: v for k, v in before.items() if k != "run/run.log"
    }
