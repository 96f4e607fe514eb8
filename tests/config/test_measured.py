"""``speeds=measured``: files of seconds, and runs that count in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flexray.config.explain import one_line
from flexray.config.measured import read_measured
from flexray.core.errors import ConfigError, DataError
from flexray.core.messages import Record, RoundRecord
from flexray.run.command import run_command
from helpers.guides import blocks
from helpers.jobs import Compose, Run

NAMES = ("a", "b", "c", "server")
SECONDS = """
participants:
  default: {iteration_s: 0.01, embedding_s: 0.001}
  2: {iteration_s: 0.02, first_s: 0.03, turn_s: 0.025}
  server: {iteration_s: 0.005, turn_s: 0.004}
round_s: 0.002
network: {t_comm: {a: 0.3, default: 0.1}}
"""
ONE = "default: {iteration_s: 1}"
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of seconds."""

    def to_file(text: str) -> Path:
        path = tmp_path / "seconds.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def rounds_of(records: list[Record]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize(
    ("words", "duration", "tau"),
    [
        (("algo=flex",), 0.2 + 0.003 + 0.3, (20, 10, 20, 40)),
        (("algo=flex", "network.t_comm=0"), 0.2 + 0.003, (20, 10, 20, 40)),
        (("algo=flex", "network.latency=0.5"), 0.2 + 0.003 + 1, (20, 10, 20, 40)),
        (("algo=adaptive", "network.t_comm={b:1,default:0}"), 0.2 + 0.003 + 1, (20, 10, 20, 40)),
        (("algo=sync_min",), 0.03 + 9 * 0.02 + 0.003 + 0.3, (10, 10, 10, 10)),
        (("algo=sync_max",), 0.03 + 39 * 0.02 + 0.002 + 0.3, (40, 40, 40, 40)),
        (("algo=pbcd",), 0.03 + 0.002 + 0.3, (1, 1, 1, 1)),
        (("algo=flex", "timeout=0.004"), 0.03 + 0.003 + 0.3, (1, 1, 1, 1)),
        (("algo=flex", "timeout=0.004", "speeds.overrun=ignore"), 0.004 + 0.003 + 0.3, (1, 1, 1, 1)),
        (("algo=pbcd", "speeds.unit_time={a:0.5}"), 0.501 + 0.002 + 0.3, (1, 1, 1, 1)),
        (("algo=flex", "speeds.utilization={a:0.5,default:0}"), 0.2 + 0.003 + 0.3, (10, 10, 20, 40)),
    ],
)
def test_rounds_count_in_seconds(
    words: tuple[str, ...], duration: float, tau: tuple[int, ...], write: Write, compose_small: Compose, run_inline: Run
) -> None:
    measured = ("speeds=measured", f"speeds.path={write(SECONDS)}", "timeout=0.2", "rounds=2", "epochs=null")
    job = compose_small(*measured, "network.t_comm=null", *words)
    assert job.experiment.time_unit == "seconds"
    found = rounds_of(run_inline(job))
    assert [record.duration for record in found] == pytest.approx([duration] * 2)
    assert {record.tau for record in found} == {tau}


def test_turns_count_in_seconds(write: Write, compose_small: Compose, run_inline: Run) -> None:
    words = ("algo=vafl", "speeds=measured", f"speeds.path={write(SECONDS)}", "rounds=4", "network.t_comm=null")
    found = rounds_of(run_inline(compose_small(*words)))
    turn = {0: 0.011 + 0.3, 1: 0.025 + 0.1, 2: 0.011 + 0.1}
    assert [record.party for record in found] == [2, 1, 2, 1]
    assert [record.sim_time for record in found[:2]] == pytest.approx([turn[2] + 0.004, turn[1] + 0.004])
    assert found[2].duration == pytest.approx(turn[2] + 0.004)


def test_the_driver_handles_one_turn_after_another(write: Write, compose_small: Compose, run_inline: Run) -> None:
    path = write(SECONDS + "driver: {turn: 0.05}")
    words = ("algo=vafl", "speeds=measured", f"speeds.path={path}", "rounds=6", "network.t_comm=null")
    found = rounds_of(run_inline(compose_small(*words)))
    assert [record.party for record in found] == [2, 1, 2, 0, 1, 2]
    ends = [0.111 + 0.05, 0.161 + 0.05, 0.165 + 0.111 + 0.05, 0.376, 0.426, 0.330 + 0.111 + 0.05]
    assert [record.sim_time for record in found] == pytest.approx([end + 0.004 for end in ends])
    assert [record.duration for record in found[:3]] == pytest.approx([0.165, 0.215, 0.165])
    with pytest.raises(ConfigError, match=r"max_time: expected at least 0.165 seconds \(one turn\), got 0.15"):
        compose_small(*words, "max_time=0.15")


def test_who_rests_for_a_turn_rests_for_its_wait_for_the_server(
    write: Write, compose_small: Compose, run_inline: Run
) -> None:
    seconds = "participants: {default: {iteration_s: 0.01}, server: {iteration_s: 0.03}}"
    words = ("algo=vafl", "speeds=measured", "speeds.utilization={b:0.5}", "network.t_comm={c:9,default:0}", "rounds=6")
    ends = {}
    for turn in (0, 0.01):
        path = write(f"{seconds}\ndriver: {{turn: {turn}}}")
        found = rounds_of(run_inline(compose_small(*words, f"speeds.path={path}")))
        ends[turn] = [(record.party, round(record.sim_time, 9)) for record in found]
    assert ends[0] == [(0, 0.04), (0, 0.08), (1, 0.11), (0, 0.14), (0, 0.18), (1, 0.21)]
    assert ends[0.01] == [(0, 0.05), (0, 0.1), (1, 0.13), (0, 0.16), (0, 0.21), (1, 0.25)]


@pytest.mark.parametrize(
    ("links", "words", "trips", "up"),
    [
        ("t_comm: {a: 0.3, default: 0.1}, bandwidth: {b: 100}", (), (0.3, 0.1, 0.1), 100.0),
        ("t_comm: 0.1, bandwidth: 100", ("network.t_comm=0.5",), (0.5,) * 3, 100.0),
        ("t_comm: 0.1, bandwidth: 100", ("network.bandwidth=7",), (0.1,) * 3, 7.0),
        ("t_comm: 0.1, bandwidth: 100", ("network.latency=0.2", "network.up=7"), (0.4,) * 3, 7.0),
        ("latency: 0.1, up: 100, jitter: 0.1", (), (0.2,) * 3, 100.0),
        ("latency: {b: 0.1}, down: 100", (), (0.0, 0.2, 0.0), float("inf")),
        ("latency: 0.1, up: 100", ("network.t_comm=0.5", "network.bandwidth=7"), (0.5,) * 3, 7.0),
    ],
)
def test_links_of_the_file_give_way_to_typed_ones(
    links: str, words: tuple[str, ...], trips: tuple[float, ...], up: float, write: Write, compose_small: Compose
) -> None:
    path = write(f"participants: {{{ONE}}}\nnetwork: {{{links}}}")
    found = compose_small("speeds=measured", f"speeds.path={path}", "network.t_comm=null", *words).experiment
    assert found.algorithm.system.party_comm_units == trips
    assert found.network is not None
    assert found.network.links[1].up == up


def test_seconds_by_batch_size(write: Write) -> None:
    path = write("participants:\n  default: {iteration_s: {16: 0.01, 64: 0.03}, first_s: {16: 0.02, 64: 0.02}}")
    assert read_measured(path, NAMES, 16).measured.iteration_s == (0.01,) * 4
    assert read_measured(path, NAMES, 64).measured.iteration_s == (0.03,) * 4
    between = read_measured(path, NAMES, 40).measured
    assert (between.iteration_s[0], between.first_s[0], between.embedding_s[0]) == pytest.approx((0.02, 0.02, 0.0))
    with pytest.raises(DataError, match=r"seconds.yaml: participants.a.iteration_s: has batch sizes 16, 64; expected"):
        read_measured(path, NAMES, 65)


def test_another_batch_size_than_the_measured_one_is_told(
    write: Write, compose_small: Compose, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("speeds=measured", "dataset.batch_size=8", "timeout=0.2")
    compose_small(*words, f"speeds.path={write(SECONDS + 'about: {batch_sizes: [8]}')}")
    assert not caplog.messages
    compose_small(*words, f"speeds.path={write(SECONDS + 'about: {batch_sizes: [64]}')}")
    assert caplog.messages == ["speeds: seconds were measured with dataset.batch_size=64, this run has 8"]


def test_the_file_of_the_guide_is_one(write: Write) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "time.md").read_text(encoding="utf-8")
    (text,) = (text for kind, text in blocks(guide) if kind == "yaml")
    found = read_measured(write(text), ("upper_left", "lower_left", "server"))
    assert found.measured.turn_s == pytest.approx((0.016, 0.09, 0.002))
    assert found.network == {"t_comm": {"lower_left": 0.2, "default": 0.05}, "bandwidth": 1e6}


def test_processes_and_machines(write: Write) -> None:
    found = read_measured(
        write(
            "participants:\n  default: {iteration_s: 1, process: 1, machine: box}\n"
            "  c: {iteration_s: 1, machine: box}\n  server: {iteration_s: 1}\nmachines: {box: {cores: 1.5}}"
        ),
        NAMES,
    ).measured
    assert (found.process, found.machine, found.cores) == ((0, 0, 1, 2), (0, 0, 0, 1), (1.5, float("inf")))


BOX = "participants: {default: {iteration_s: 1, machine: box}}"
MISTAKES = {
    "a: 1": "a: unknown key; expected one of: about, driver, evaluation_s, machines, network, participants, round_s",
    "round_s: 1": "participants: expected a mapping, got null",
    "participants: 3": "participants: expected a mapping, got 3",
    "participants: {a: {iteration_s: 1}}": "participants.b: is missing; expected its iteration_s, or 'default'",
    f"participants: {{{ONE}, d: {{iteration_s: 1}}}}": "participants: unknown participant 'd'; expected one of: 1 to 3",
    f"participants: {{{ONE}, a: {{iteration_s: 1}}, 1: {{iteration_s: 1}}}}": "participants.1: 'a' is given twice",
    f"participants: {{{ONE}, a: 0.1}}": "participants.a: expected keys such as iteration_s, got 0.1",
    f"participants: {{{ONE}, a: {{itertion_s: 1}}}}": "participants.a.itertion_s: unknown key; did you mean",
    f"participants: {{{ONE}, a: {{spread: 1}}}}": "participants.a.iteration_s: is missing; expected the seconds of",
    f"participants: {{{ONE}, a: {{iteration_s: 0}}}}": "participants.a.iteration_s: expected a positive number, got 0",
    f"participants: {{{ONE}, a: {{iteration_s: fast}}}}": "participants.a.iteration_s: expected a positive number, got",
    f"participants: {{{ONE}, a: {{iteration_s: .nan}}}}": "participants.a.iteration_s: expected a positive number, got",
    f"participants: {{{ONE}, a: {{iteration_s: {{}}}}}}": "participants.a.iteration_s: has batch sizes none; expected",
    f"participants: {{{ONE}, a: {{iteration_s: {{x: 1}}}}}}": "participants.a.iteration_s: batch size: expected a",
    f"participants: {{{ONE}, a: {{iteration_s: 1, turn_s: -1}}}}": "participants.a.turn_s: expected a number of",
    f"participants: {{{ONE}}}\nround_s: -1": "round_s: expected a number of at least 0, got -1",
    f"participants: {{{ONE}}}\ndriver: {{turn: -1}}": "driver.turn: expected a number of at least 0, got -1",
    f"participants: {{{ONE}}}\ndriver: {{turn: fast}}": "driver.turn: expected a number of at least 0, got",
    f"participants: {{{ONE}}}\ndriver: {{trun: 1}}": "driver.trun: unknown key; did you mean 'turn'",
    f"participants: {{{ONE}}}\ndriver: 1": "driver: expected a mapping, got 1",
    f"participants: {{{ONE}}}\nmachines: {{box: {{cores: 2}}}}": "machines.box: no participant is on it",
    f"{BOX}\nmachines: {{box: 2}}": "machines.box: expected the key cores",
    f"{BOX}\nmachines: {{box: {{cores: 0}}}}": "machines.box.cores: expected",
    "participants: {default: {iteration_s: 1, process: 1}, a: {iteration_s: 1, process: 1, machine: x}}": (
        "participants.b.machine: others of its process are on x"
    ),
    f"participants: {{{ONE}}}\nnetwork: 3": "network: expected a mapping, got 3",
    "participants: [": "is not plain YAML",
    "- 1": "expected a mapping, got list",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_the_file_is_one_line_that_names_it(text: str, write: Write) -> None:
    with pytest.raises(DataError) as caught:
        read_measured(write(text), NAMES, 8)
    said = str(caught.value)
    assert "seconds.yaml: " in said
    assert MISTAKES[text] in said
    assert one_line(said) == said


def test_a_mistake_in_the_run_is_one_line_that_names_it(write: Write, compose_small: Compose, tmp_path: Path) -> None:
    path = write(SECONDS)
    words = ("speeds=measured", f"speeds.path={path}")
    with pytest.raises(DataError, match=r"speeds.path: .*/none.yaml: .*expected a file of flexray.calibrate"):
        compose_small("speeds=measured", f"speeds.path={tmp_path / 'none.yaml'}")
    with pytest.raises(ConfigError, match="clock: speeds=measured predicts real seconds on the virtual clock"):
        compose_small(*words, "clock=wall")
    with pytest.raises(ConfigError, match=r"speeds.iterations: speeds=measured has seconds; expected speeds.unit_time"):
        compose_small(*words, "speeds.iterations=[1,2,3]")
    with pytest.raises(ConfigError, match=r"max_time: expected at least 0.503 seconds \(one round\), got 0.5"):
        compose_small(*words, "timeout=0.2", "network.t_comm=null", "max_time=0.5")
    write(SECONDS.replace("t_comm", "t_com"))
    with pytest.raises(DataError, match=r"seconds.yaml: network.t_com: unknown key; did you mean 't_comm'"):
        compose_small(*words)


def test_everything_a_run_writes_says_seconds_and_it_goes_on(write: Write, bundle: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "whole", tmp_path / "parts"]
    words = ["cluster=inline", "progress=false", "dataset=bundle", f"dataset.path={bundle}", "speeds=measured"]
    words += [f"speeds.path={write(SECONDS)}", "timeout=0.2", "epochs=null", "eval_every=1", "dataset.batch_size=8"]
    assert run_command([*words, "rounds=3", f"hydra.run.dir={folders[0]}"]) == 0
    assert run_command([*words, "rounds=2", f"hydra.run.dir={folders[1]}"]) == 0
    assert run_command([f"resume={folders[1]}", "rounds=3"]) == 0
    one, two = (json.loads((folder / "summary.json").read_text(encoding="utf-8")) for folder in folders)
    assert (one["time_unit"], one["predicted"], one["sim_time"]) == ("seconds", True, pytest.approx(3 * 0.503))
    assert one["model_digest"] == two["model_digest"]
    texts = [
        [(folder / name).read_text(encoding="utf-8") for name in ("rounds.csv", "evals.csv")] for folder in folders
    ]
    assert texts[0] == texts[1]
    timeline = json.loads((folders[0] / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["args"]["name"] for event in timeline if event["name"] == "process_name"} == {"seconds"}
    assert max(event["ts"] + event["dur"] for event in timeline if "dur" in event) == pytest.approx(3 * 503e3)
