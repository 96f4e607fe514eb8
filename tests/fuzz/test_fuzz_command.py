"""Command lines that are made up: each is accepted, or refused in one line that names one of its keys.

The same ones every time; ``--fuzz-examples=5000 --fuzz-seed=1`` for more and others. Most are composed as Hydra does,
built and, where that is quick, run for a round, without the command around it; some go through the whole command.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from flexray.algorithms.base import Moment
from flexray.algorithms.flex import FlexVFL
from flexray.config.explain import known_keys, one_line
from flexray.config.job import Job
from flexray.config.schema import RunConfig, config_folder
from flexray.config.typed import choices_of, key_of
from flexray.engine.driver.experiment import Limits
from flexray.engine.driver.make import make_driver
from flexray.engine.hosts.inline import InProcess, borrowed_torch
from flexray.engine.hosts.plan import together
from flexray.run.command import run_command
from helpers.refusals import refusal

EVERY_DAY, OF_WHOLE_COMMAND = 480, 20
MOST_STEPS = 100
"""Local iterations of a round that is run."""
FOLDER = config_folder()
GROUPS = {
    group: [name for name in choices_of(group) if name not in ("mosei", "mosi", "imagenet100", "modelnet40", "ray")]
    for group in ("algo", "dataset", "model", "server", "optimizer", "speeds", "clock", "cluster", "logger")
}
KEYS = sorted(
    key for key in known_keys()
    if not key.startswith(("hydra", "dataset.synthetic", "dataset.standin", "resume")) and "default" not in key
)  # fmt: skip
MORE = [
    *(f"parties.{who}.{key}" for who in ("a", "2", "server", "nobody")
      for key in ("model", "model.hidden", "optimizer", "optimizer.momentum", "clip_norm", "lr_decay", "resources")),
    "parties", "parties.a", "algo", "cluster", "optimizer.weight_decay", "model._target_", "optimizer.name",
    "sed", "lr.a", "dataset.x.y", "+seed", "~seed", "~lr", "++model.width", "+network.x", "hydra.job.name", "resume",
]  # fmt: skip
NUMBERS = [
    *map(str, (0, 1, 2, 3, 7, -1, 24, 10**10, 10**12, 10**13, 2**63, 10**30, 10**400)), "1" + "0" * 5000,
    "0.5", "0.05", "-0.5", "1.0", "1e-3", "1e17", "1e19", "1e308", "1e-308", "-1e308", "nan", "inf", "-inf",
]  # fmt: skip
WORDS = [
    "null", "true", "false", "abc", "", "''", "a", "server", "default", "paper", "flexray.models.MLP", "torch.nn.ReLU",
    "no.such.Class", "Adam", "test_loss", "ü", "'ü'", "{a", "[1,", "a b", "a:b", "=", "${", "${seed}", "${lr}",
    "${nothing}", "${rounds}", "${dataset.batch_size}", "${oc.env:NO_SUCH}", "${by_algo:1}", "${by_algo:1,2}",
    "${network}", "1,2",  "${oc.env:" * 30 + "a" + "}" * 30,
    "choice(1,2)", "range(1,3)", "\\\\", '"', "(1)", "[" * 40 + "]" * 40, "[" * 500 + "]" * 500,
    "\\x00", "1_000", "0x10", "1e", "--", "'", "@", "a@b",
]  # fmt: skip
NAMES = ["a", "b", "c", "1", "9", "server", "default", "milestones", "factor", "_target_", "x", "3.5", "null", "true"]

scalars = st.sampled_from([*NUMBERS, *WORDS])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4).map(
            lambda items: f"{{{','.join(f'{name}:{item}' for name, item in items.items())}}}"
        )
    ),
    max_leaves=6,
)
OWN = [
    *(key for key in KEYS if key.split(".")[0] in {field.name for field in fields(RunConfig)} - set(GROUPS)),
    "model.hidden", "model.dropout", "optimizer.momentum", "optimizer.l2", "optimizer.local_rates", "server.weight_std",
    "dataset.batch_size", "dataset.drop_last", "dataset.val_fraction", "dataset.scale", "dataset.split_seed",
    *(f"speeds.{key}" for key in ("iterations", "unit_time", "utilization")), "clock.kind", "cluster.cpus_per_party",
]  # fmt: skip
PLAUSIBLE = [
    "0", "1", "2", "24", "-1", "0.5", "1e-18", "1e17", "1e18", "null", "true", "[0.1,0.2,0.3]", "[0.5,1,2,3]", "[2]",
    "{a:1,default:2}", "{2:0.1,default:0.5,server:1}", "{}", "[]",
]  # fmt: skip
keys_and_values = (
    st.builds("{}={}".format, st.sampled_from([*KEYS, *MORE]), values)
    | st.builds("{}={}".format, st.sampled_from(KEYS), st.sampled_from(NUMBERS))
    | st.builds("{}={}".format, st.sampled_from(OWN), st.sampled_from(PLAUSIBLE))
)
choices = st.sampled_from([f"{group}={name}" for group, names in GROUPS.items() for name in names])
of_groups = st.builds("{}={}".format, st.sampled_from(sorted(GROUPS)), values)
no_override = st.sampled_from(["--rounds", "--seed=3", "-x", "rounds", "=3", "~algo", "~model", "+experiment=[1]"])
overrides = st.integers(0, 19).flatmap(
    lambda n: choices if n == 0 else of_groups if n == 1 else no_override if n == 2 else keys_and_values
)
lines = st.lists(overrides, min_size=1, max_size=3)

Fuzz = Callable[[Callable[[list[str]], None], int], None]


@pytest.fixture
def fuzz(pytestconfig: pytest.Config) -> Fuzz:
    """Return a function that tries command lines: so many of every day's five hundred, or of those asked for."""
    asked = pytestconfig.getoption("--fuzz-examples")
    number = pytestconfig.getoption("--fuzz-seed")

    def go(check: Callable[[list[str]], None], share: int) -> None:
        count = share if asked is None else max(1, asked * share // (EVERY_DAY + OF_WHOLE_COMMAND))
        limits = settings(
            max_examples=count, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck), print_blob=False,
        )  # fmt: skip
        seed(number)(limits(given(lines)(check)))()

    return go


@pytest.fixture
def base(bundle: Path) -> list[str]:
    """Return what is typed before: a small run."""
    return [
        "cluster=inline", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", "rounds=1",
        "model.hidden=[4]", "embedding=3",
    ]  # fmt: skip


def run_one_round(job: Job) -> None:
    x = job.experiment
    steps = FlexVFL(x.algorithm.system).iterations_by_timeout(Moment(0, 0.0, x.speeds.utilization(0, 0.0)))
    if x.wall is None and max(steps) <= MOST_STEPS:
        with borrowed_torch():
            list(make_driver(replace(x, limits=Limits(rounds=1)), InProcess(), together(len(x.parties))).run())


def assert_names_one_of(line: str, words: Sequence[str]) -> None:
    """Check that a refusal names a key, what was typed in place of one, or a file of the data."""
    assert line.strip()
    named = {
        part for word in words for key in [key_of(word)] for part in (key, key.rpartition(".")[2], key.split(".")[0])
    }
    typed = {word.lstrip("+~") for word in words}
    others = {field.name for field in fields(RunConfig)} | {
        ".npy: "
    }  # what a value makes of another key, or of the data
    assert any(name in line for name in {*named, *typed, *others} - {""}) or line.startswith("="), (line, words)


@pytest.mark.timeout(600)
def test_a_command_line_is_accepted_or_refused_by_a_name(fuzz: Fuzz, base: list[str]) -> None:
    seen: Counter[str] = Counter()

    def check(words: list[str]) -> None:
        line = refusal(base, words, run_one_round)
        seen["accepted" if line is None else "refused"] += 1
        if line is not None:
            assert_names_one_of(one_line(line), words)

    fuzz(check, EVERY_DAY)
    print(dict(seen))
    assert min(seen["accepted"], seen["refused"]) > 0


@pytest.fixture
def quiet() -> Iterator[None]:
    """Give import path and log handlers back as they were."""
    path, root = list(sys.path), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    sys.path[:] = path
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.usefixtures("quiet")
def test_the_command_ends_with_one_line_and_leaves_nothing(
    fuzz: Fuzz, base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: Counter[int] = Counter()

    def check(words: list[str]) -> None:
        folder = tmp_path / f"run-{seen.total()}"
        capsys.readouterr()
        status = run_command([*base, "progress=false", f"hydra.run.dir={folder}", *words])
        out, err = capsys.readouterr()
        seen[status] += 1
        assert "Traceback" not in out + err
        if status == 2:
            (line,) = [line for line in (out + err).splitlines() if line.startswith("flexray: ")]
            assert_names_one_of(line, words)
            assert not (folder / "summary.json").exists()
            assert not (folder / "checkpoints").exists()
        else:
            assert status == 0 or err.startswith("diverged: "), (status, words, out + err)

    fuzz(check, OF_WHOLE_COMMAND)
    print(dict(seen))
