"""Numbers at the ends of what makes sense, models too large for memory, limits that never end, losses that grow."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from flexray.config.overrides import prepare
from flexray.config.typed import read
from flexray.core.checks import number, shown, whole
from flexray.core.errors import ConfigError, ResourceError, blame, is_lack_of_memory
from flexray.core.messages import Report
from flexray.engine.driver.divergence import Watch
from flexray.models import MLP, build_module
from flexray.models.memory import MemoryCheck

GOOGOL = "1" + "0" * 100
TOO_LARGE = {
    "lr=1e308": "lr: expected a positive number, at most 1e+18, got 1e+308",
    "lr=[0.1,0.1,1e19,0.1,0.1]": "lr[2]: expected a positive number, at most 1e+18, got 1e+19",
    "lr=1e-300": "lr: expected a positive number, at least 1e-18, got 1e-300",
    "network.t_comm=1e308": "network.t_comm: expected a number of at least 0, at most 1e+18, got 1e+308",
    "network.bandwidth=1e-300": "network.bandwidth: expected a positive number, at least 1e-18, got 1e-300",
    "epochs=1e308": "epochs: expected a positive number, at most 1e+18, got 1e+308",
    "max_time=1e308": "max_time: expected a positive number, at most 1e+18, got 1e+308",
    "timeout=1e308": "timeout: expected a positive number, at most 1e+18, got 1e+308",
    "adaptive.A=1e308": "adaptive.A: expected a positive number, at most 1e+18, got 1e+308",
    "optimizer.l2=1e308": "optimizer.l2: expected a number of at least 0, at most 1e+18, got 1e+308",
    "optimizer.local_rates=[1,1e308]": "optimizer.local_rates[1]: expected a positive number, at most 1e+18, got",
    "lr_decay.factor=2": "lr_decay.factor: expected a number above 0, up to 1, got 2",
    "clip_norm=1e30": "clip_norm: expected a positive number, at most 1e+18, got 1e+30",
    "party_threads=100000": "party_threads: expected a whole number of at most 1,024, got 100000",
    "rounds=9000000000000": "rounds: expected a whole number of at most 1,000,000,000,000, got 9000000000000",
}


@pytest.mark.parametrize("argument", TOO_LARGE)
def test_a_number_that_would_overflow_later_is_refused_at_the_start(compose_job, argument):
    with pytest.raises(ConfigError) as caught:
        compose_job(argument)
    assert str(caught.value).removeprefix("optimizer: ").startswith(TOO_LARGE[argument])


@pytest.mark.parametrize("key", ["lr", "epochs", "party_threads", "embedding", "model.width", "parties.a.clip_norm"])
@pytest.mark.parametrize("value", [GOOGOL, f"-{GOOGOL}", f"[1,{GOOGOL}]", f"{{a:{GOOGOL}}}", f"{{{GOOGOL}:1}}"])
def test_a_whole_number_that_64_bits_do_not_hold_is_refused_before_anything_is_composed(key, value):
    with pytest.raises(
        ConfigError, match=rf"^{key}\S*: expected a number of at most 9223372036854775807, got -?10+\.\.\.$"
    ):
        prepare([f"{key}={value}"])


@pytest.mark.parametrize("argument", ["absence=[${,${seed}]", "lr='${'", "network.clip={a:'${seed'}", "target='${}'"])
def test_an_interpolation_that_cannot_be_read_is_named_by_its_key(argument):
    with pytest.raises(ConfigError, match=rf"^{argument.partition('=')[0]}\S*: cannot be read: "):
        prepare([argument])


def test_a_command_without_arguments_is_the_default_run():
    assert prepare([]) == []


def test_a_value_in_a_message_is_short():
    assert len(shown(int(GOOGOL))) == len(shown("x" * 500)) == 60
    assert [shown(value) for value in (None, True, 0.5, "a", [1])] == ["null", "true", "0.5", "'a'", "[1]"]


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), "1", True, None, [1], {}])
def test_what_is_no_number_of_a_float_is_refused(value):
    with pytest.raises(ConfigError, match=r"^key: expected a number"):
        number("key", value)
    if not isinstance(value, int) or isinstance(value, bool):
        with pytest.raises(ConfigError, match=r"^key: expected a whole number"):
            whole("key", value, low=-5)


@pytest.mark.parametrize(
    "argument", ["lr=choice(0.1,0.2)", "lr=0.1,0.2", "seed=range(1,4)", "algo=flex,vafl", "model={a:1}"]
)
def test_sweeps_and_mappings_are_read(argument):
    assert read(argument).key_or_group == argument.partition("=")[0]


@pytest.mark.parametrize("choice", ["digits", "bundle", "table", "mosei", "mosi", "imagenet100", "modelnet40"])
@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_a_run_without_any_limit_is_refused(compose_job, choice, algo, bundle, tmp_path):
    path = {"bundle": [f"dataset.path={bundle}", "dataset.batch_size=8"], "table": [*_table(tmp_path)]}.get(choice, [])
    with pytest.raises(
        ConfigError, match=r"^rounds: none of rounds, epochs and max_time is given; expected at least one$"
    ):
        compose_job(f"dataset={choice}", *path, f"algo={algo}", "rounds=null", "epochs=null", "max_time=null")


def _table(folder: Path) -> list[str]:
    file = folder / "t.csv"
    file.write_text("x,y,z\n" + "".join(f"{i},{i * 2},{i % 2}\n" for i in range(20)), encoding="utf-8")
    return [f"dataset.path={file}", "dataset.label=z", "dataset.parties={a:[x],b:[y]}", "dataset.batch_size=4"]


def test_time_that_stands_still_never_meets_a_limit_of_time(run, write_module):
    write_module(
        "own",
        """
        from flexray.algorithms.base import RoundAlgorithm

        class Still(RoundAlgorithm):
            def plan(self, now):
                return self.make_plan(now, self.same_for_all(0), 0.0)
        """,
    )
    words = ("algo._target_=own.Still", "network.t_comm=0", "max_time=5")
    run(*words, "rounds=null", "epochs=null").assert_refused(
        "max_time: the first round takes no time, so the run would"
    )
    assert run(*words, "rounds=2").status == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("embedding=10000000000",),
            ["a: its model takes 160,000,000,000 bytes for a tensor of 10000000000 x 4 alone"],
        ),
        (("model.hidden=[100000000000]",), ["a: its model takes 2,400,000,000,000 bytes"]),
        (("parties.b.model.hidden=[4,10000000000]",), ["b: its model takes 160,000,000,000 bytes"]),
        (("parties.server.model=mlp", "parties.server.model.hidden=[100000000000]"), ["server: its model takes "]),
    ],
)
def test_a_model_larger_than_memory_is_refused_with_its_bytes(run, arguments, words):
    outcome = run("model.hidden=[4]", *arguments)
    outcome.assert_refused(*words, "are free; expected less of embedding, model.*, server.*")
    assert not (outcome.folder / "checkpoints").exists()


ALLOCATOR = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    " 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)


def test_a_users_model_larger_than_memory_is_refused_before_or_by_the_allocator():
    with pytest.raises(ResourceError, match=r"^model: its model takes 4,000,000,000,000,000 bytes"):
        build_module(lambda: nn.Linear(10**9, 10**6))
    told = r"^a: not enough memory in construction: DefaultCPUAllocator: .* allocate 4000000000000 bytes"
    with pytest.raises(ResourceError, match=told), blame("a", "construction"):
        raise RuntimeError(ALLOCATOR)


def test_a_model_is_the_same_whether_its_memory_was_looked_at_or_not():
    torch.manual_seed(3)
    with MemoryCheck("a"):
        one = MLP(5, 3)
    torch.manual_seed(3)
    assert all(map(torch.equal, one.parameters(), MLP(5, 3).parameters()))
    assert not is_lack_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize(
    ("losses", "found"),
    [
        ([2.3, 2.3e6], None), ([2.3, 2.4e6], 2.4e6), ([1e-9, 1e5], None), ([1e-9, 2e6], 2e6),
        ([5e9, 1e10], None), ([2.3, float("inf")], "not finite"), ([2.3, float("nan")], "not finite"),
    ],
)  # fmt: skip
def test_a_loss_a_million_times_the_first_is_a_divergence(losses, found):
    watch = Watch(("a", "server"))
    for done, loss in enumerate(losses):
        watch.reports(done, [Report(1, 1.0, 1e30), Report(1, 1.0, loss)])
    assert (watch.found and (watch.found.round, watch.found.loss)) == (
        found and (1, found if found != "not finite" else None)
    )


def test_a_loss_that_grows_but_stays_finite_is_told(run):
    outcome = run("lr=1e4", "rounds=3", "dataset.loss=cross_entropy", "clip_norm=1", "timeout=1", "model.hidden=[]")
    assert outcome.status == 1, outcome.text
    assert outcome.summary["status"] == "diverged"
    assert outcome.summary["divergence"]["loss"] > 1e6
    assert outcome.stderr.startswith("diverged: the loss grew to ")


FLOAT64 = """
    from torch import nn

    class Model(nn.Linear):
        def forward(self, x):
            embedding = super().forward(x)
            return embedding if self.training == {training} else embedding.double()
"""


def test_a_model_that_returns_another_type_in_evaluation_is_refused_before_the_first_round(run, write_module):
    write_module("own", FLOAT64.format(training=True))
    outcome = run("model._target_=own.Model")
    line = "its model returned torch.float64 in evaluation, expected torch.float32"
    assert outcome.errors == [f"flexray: a failed in a first forward pass: {line}"]
    assert run("model._target_=own.Model", "dtype=float64").status == 0
    write_module("own", FLOAT64.format(training=False))
    assert (
        "a failed in round 1: ValueError: its model returned torch.float64" in run("model._target_=own.Model").errors[0]
    )


def test_a_choice_of_a_group_for_one_participant(run):
    words = (
        "parties.a.model=cnn",
        "parties.a.model.channels=[3]",
        "parties.2.optimizer=adam",
        "parties.server.model=mlp",
    )
    outcome = run(*words, "rounds=1", "model=linear")
    assert outcome.status == 0, outcome.text
    assert "optimizer: Adam is outside of the theory (in_theory=False), so w_bar counts as 1 for b" in outcome.text
