"""Checkpoints with a right checksum and wrong content, and what a user may do with a folder of the user's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from flexray.run.command import run_command
from helpers.strangers import SMALL, Stranger, tree

Change = Callable[[dict[str, Any]], object]


def reseal(stranger: Stranger, change: Change, arrays: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Change the content of the checkpoint, and give it its checksum."""
    path = stranger.folder / "checkpoints" / "round-2.json"
    content = json.loads(path.read_text())["content"]
    if arrays is not None:
        blob = path.with_suffix(".safetensors")
        found = load_file(blob)
        arrays(found)
        save_file(found, blob)
        content["arrays_sha256"] = hashlib.sha256(blob.read_bytes()).hexdigest()
    change(content)
    text = json.dumps(content)
    seal = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(f'{{"sha256": "{seal}", "content": {text}}}\n', encoding="utf-8")


def rename(content: dict[str, Any]) -> None:
    people = content["participants"]
    content["participants"] = {name.replace("upper", "outer"): notes for name, notes in people.items()}


def mark(observer: str, key: str, value: Any) -> Change:
    return lambda content: content["marks"][observer].update({key: value})


def state(key: str, value: Any) -> Change:
    return lambda content: content["driver"].update({key: value})


CLOCK = {"__": "Stopwatch", "fields": {"now": "late", "_anchor": 0.0, "_duration": 0.0, "_count": 0}}
CONTENTS: dict[str, tuple[Change, str]] = {
    "round as text": (lambda c: c.update(round="2"), "round: expected a whole number"),
    "round of another": (lambda c: c.update(round=1), "is of round 1"),
    "round below 0": (lambda c: c.update(round=-2), "round: expected a whole number"),
    "time as text": (lambda c: c.update(sim_time="1"), "sim_time: expected a number"),
    "time endless": (lambda c: c.update(sim_time=float("inf")), "time inf"),
    "other format": (lambda c: c.update(format=7), "expected an object of format 2"),
    "no marks": (lambda c: c.pop("marks"), "marks: expected a mapping"),
    "empty marks": (lambda c: c.update(marks={}), "marks of TableObserver make no sense"),
    "config as text": (lambda c: c.update(config="x"), "config: expected a mapping"),
    "config deep": (lambda c: c.update(config={"a": [[[[[1]]]]] * 3}), "these keys would change the result"),
    "empty driver": (lambda c: c.update(driver={}), "the driver: what is saved of it does not fit"),
    "driver as list": (lambda c: c.update(driver=[]), "driver: expected a mapping"),
    "renamed participant": (rename, "is of lower_left, lower_right, outer_left"),
    "participant lost": (lambda c: c["participants"].pop("server"), "no checkpoint can be used"),
    "notes as text": (lambda c: c["participants"].update(server="x"), "participants: expected a mapping"),
    "no parameters": (lambda c: c["participants"]["server"].pop("parameters"), "server: what is saved of it does"),
    "other parameters": (lambda c: c["participants"]["server"].update(parameters=["x"]), "names other parameters"),
    "no optimizer": (lambda c: c["participants"]["upper_left"].pop("optimizer"), "upper_left: what is saved of it"),
    "optimizer": (lambda c: c["participants"]["upper_left"].update(optimizer={"__": "os"}), "upper_left: what is"),
    "negative mark": (mark("TableObserver", "rounds", -1), "marks of TableObserver make no sense"),
    "mark as text": (mark("TimelineObserver", "end", "9"), "marks of TimelineObserver make no sense"),
    "mark beyond": (mark("TableObserver", "evals", 10**9), "evals.csv: it has"),
    "mark endless": (mark("TableObserver", "rounds", 10**400), "make no sense"),
    "bytes of others": (mark("SummaryObserver", "up", [1]), "expected numbers of 4 parties"),
    "metrics": (mark("SummaryObserver", "last_eval", {"round": 1}), "marks of SummaryObserver make no sense"),
    "clock": (state("clock", CLOCK), "clock: no such value can be"),
    "clock as class": (state("clock", {"__": "os.system", "fields": {}}), "the driver: what is saved of it"),
    "computed": (state("computed", [1.0, 2.0]), "computed: expected 1 values, got 2"),
    "computed as text": (state("computed", ["x"]), "computed: no such value can be"),
    "reports": (state("reports", [1]), "reports: no such value can be"),
    "reached": (state("reached", "yes"), "reached: no such value can be"),
    "more": (state("more", 1), "the driver: what is saved of it"),
}  # fmt: skip
F4 = np.zeros((7, 3), "f4")


def lose(arrays: dict[str, Any]) -> None:
    del arrays[next(key for key in arrays if key.startswith("4.model"))]


ARRAYS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "model of another shape": (lambda a: a.update({"0.model.net.0.weight": F4}), "upper_left: its saved model"),
    "array lost": (lose, "server: its saved model does not fit"),
    "another's array": (lambda a: a.update({"9.x": F4}), "no checkpoint can be used"),
    "no number": (lambda a: a.update({"x.y": F4}), "no checkpoint can be used"),
    "embeddings": (lambda a: a.update({"0.sent": F4}), "upper_left: what is saved of it does not fit"),
    "table": (lambda a: a.update({"4.table.embeddings": F4}), "server: what is saved of it does not fit"),
}  # fmt: skip


def assert_refused(stranger: Stranger, words: str) -> None:
    before = {name: content for name, content in tree(stranger.here).items() if name != "run/run.log"}
    stranger.said()
    assert stranger.resume() == 2
    out, err = stranger.said()
    told = [
        line
        for line in out.splitlines()
        if not line.startswith(("going on after", "flex on digits", "optimizer: Adam"))
    ]
    assert told == [], out
    assert err.startswith("flexray: ")
    assert err.count("\n") == 1, err
    assert words in err, err
    assert {name: content for name, content in tree(stranger.here).items() if name != "run/run.log"} == before


@pytest.mark.parametrize("kind", CONTENTS)
def test_content_that_makes_no_sense_is_refused_at_the_start(kind: str, stranger: Stranger) -> None:
    change, words = CONTENTS[kind]
    reseal(stranger, change)
    assert_refused(stranger, words)


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_that_do_not_fit_are_refused_at_the_start(kind: str, stranger: Stranger) -> None:
    change, words = ARRAYS[kind]
    reseal(stranger, lambda content: None, change)
    assert_refused(stranger, words)


def test_ones_own_folder_goes_on_and_predicts_without_more_typing(stranger: Stranger) -> None:
    assert stranger.resume() == 0
    assert stranger.predict() == 0
    stranger.folder.rename(stranger.here / "moved")
    stranger.folder = stranger.here / "moved"
    assert stranger.resume("rounds=4") == 0
    assert stranger.predict() == 0


def test_what_a_killed_command_left_half_written_goes(stranger: Stranger) -> None:
    names = sorted(path.name for path in (stranger.folder / "checkpoints" / "final").iterdir())
    for half in ("checkpoints/final/upper_left.tmp", "checkpoints/round-3.json.tmp", ".hydra/config.yaml.tmp"):
        (stranger.folder / half).write_bytes(b"half")
    assert stranger.resume() == 0
    assert sorted(path.name for path in (stranger.folder / "checkpoints" / "final").iterdir()) == names
    assert not list(stranger.folder.rglob("*.tmp"))


def test_what_is_typed_again_or_trusted_is_done(stranger: Stranger) -> None:
    (stranger.here / "mine.py").write_text("from flexray.models import MLP\n\n\nclass Net(MLP):\n    pass\n")
    run = f"hydra.run.dir={stranger.here / 'own'}"
    assert run_command([*SMALL, "+parties.1.model={_target_:mine.Net,hidden:[4]}", run]) == 0
    stranger.folder = stranger.here / "own"
    stranger.assert_refused(stranger.resume, "parties.1.model._target_=mine.Net: stands in the run folder", "type it")
    assert stranger.resume("parties.1.model={_target_:mine.Net,hidden:[4]}") == 0
    stranger.assert_refused(stranger.predict, "parties.1.model._target_=mine.Net", "trust=true")
    assert stranger.predict("trust=true") == 0
    assert stranger.resume("rounds=4", "trust=true") == 0


def test_checkpoints_in_a_folder_elsewhere_are_found_again_but_not_anothers(stranger: Stranger) -> None:
    place, own = stranger.here / "elsewhere", stranger.here / "own"
    assert run_command([*SMALL, f"hydra.run.dir={own}", f"checkpoint.dir={place}"]) == 0
    assert run_command([f"resume={own}", "rounds=3"]) == 0
    own.rename(stranger.here / "moved")
    stranger.folder = stranger.here / "moved"
    stranger.assert_refused(stranger.resume, f"checkpoint.dir={place}"[:90], "files are written there")
    assert stranger.resume("rounds=4", f"checkpoint.dir={place}") == 0
