"""Links with a bandwidth, and what happens to embeddings on their way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flexray.config.links import wires
from flexray.core.errors import ConfigError
from flexray.core.links import Wire
from flexray.core.messages import Ended, Record, RoundRecord
from flexray.core.network import Link, Network
from helpers.jobs import Compose, Run

BLOCK = np.array([[3.0, -4.0, 0.5, 0.0], [0.1, 0.2, -0.3, 0.4]], dtype=np.float32)


def test_a_plain_wire_hands_on_the_very_array() -> None:
    assert Wire().send(BLOCK, 0) is BLOCK
    assert Wire().nbytes(2, 4, 4) == BLOCK.nbytes


def test_top_k_keeps_the_largest_values_of_every_sample() -> None:
    expected = np.array([[3.0, -4.0, 0, 0], [0, 0, -0.3, 0.4]], dtype=np.float32)
    np.testing.assert_array_equal(Wire(top_k=0.5).send(BLOCK, 0), expected)
    assert Wire(top_k=0.5).nbytes(2, 4, 4) == 4 * 4 + 1  # four floats and four places of two bits


def test_top_k_is_not_rounded_up_by_the_error_of_a_float() -> None:
    for width in range(1, 300):
        for percent in range(1, 101):
            assert Wire(top_k=percent / 100).values(width) == -(-percent * width // 100)


def test_quantization_moves_values_to_the_nearest_level() -> None:
    sent = Wire(bits=2).send(BLOCK, 0)
    levels = -4 + np.arange(4) * 7 / 3
    np.testing.assert_allclose(np.unique(sent), levels[[0, 2, 3]], atol=1e-6)
    assert np.abs(Wire(bits=16).send(BLOCK, 0) - BLOCK).max() <= 7 / (2**16 - 1)
    assert Wire(bits=2).nbytes(2, 4, 4) == 2 + 8  # eight values of two bits and the range


def test_clipping_shortens_only_what_is_too_long() -> None:
    norms = np.linalg.norm(Wire(clip=1.0).send(BLOCK, 0), axis=1)
    np.testing.assert_allclose(norms, [1.0, np.linalg.norm(BLOCK[1])], rtol=1e-6)


def test_noise_is_drawn_from_a_named_stream() -> None:
    zeros = np.zeros((500, 8))
    one, again, other = (Wire(noise=0.5).send(zeros, 3, "party", k) for k in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert abs(one.std() - 0.5) < 0.02


def test_what_is_constant_or_not_finite_is_not_quantized() -> None:
    for value in (0.0, 2.0, np.inf, np.nan):
        block = np.full((2, 3), value)
        np.testing.assert_array_equal(Wire(bits=4).send(block, 0), block)


@pytest.mark.parametrize("bad", [{"clip": 0.0}, {"noise": -1.0}, {"top_k": 0.0}, {"top_k": 1.5}, {"bits": 17}])
def test_bad_arguments_are_named(bad: dict[str, float]) -> None:
    network = {"clip": None, "noise": 0.0, "top_k": 1.0, "bits": None, **bad}
    with pytest.raises(ConfigError, match=rf"network\.{next(iter(bad))}: expected"):
        wires({"network": network}, ["a"])


def test_a_link_takes_its_latency_and_its_bytes() -> None:
    network = Network((Link(1.0, 100.0, 100.0), Link(2.0))).carrying([200, 10**9], [50, 0])
    assert network.usual_units == (3.5, 2.0)


def rounds(records: list[Record]) -> list[RoundRecord]:
    return [record for record in records if isinstance(record, RoundRecord)]


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_a_round_waits_for_the_bytes_of_the_slowest_link(
    algo: str, bundle: Path, compose_job: Compose, run_inline: Run
) -> None:
    common = (f"algo={algo}", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=6", "embedding=4")
    job = compose_job(
        *common, "rounds=3", "network.t_comm=2", "network.bandwidth={a:64,default:1e12}", "speeds=uniform"
    )
    first = rounds(run_inline(job))[-1]
    block, head = 6 * 4 * 8, (12 * 4 + 4) * 8
    sent = head + 4 * block if algo == "flex" else 2 * block
    slowest = 2 + sent / 64
    if algo == "flex":
        assert first.comm_units == pytest.approx(slowest, rel=1e-9)
        assert first.up_bytes[0] + first.down_bytes[0] == sent
    else:
        assert first.party != 0  # whose link is still busy
        assert first.comm_units == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("algo", ["flex", "vafl"])
def test_compressed_embeddings_train_and_count_fewer_bytes(
    algo: str, bundle: Path, compose_job: Compose, run_inline: Run
) -> None:
    common = (f"algo={algo}", "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=6", "rounds=9")
    plain, small = (
        run_inline(compose_job(*common, *more)) for more in ((), ("network.top_k=0.5", "network.bits={a:4,default:8}"))
    )
    up = [sum(record.up_bytes[0] for record in rounds(records)) for records in (plain, small)]
    count = sum(1 for record in rounds(small) if record.up_bytes[0])
    assert up[0] == count * 6 * 32 * 8
    assert up[1] == count * (6 * 16 // 2 + 2 * 8 + 6 * 16 * 5 // 8)
    ended = [records[-1] for records in (plain, small)]
    assert all(isinstance(end, Ended) for end in ended)
    assert ended[0].digests != ended[1].digests  # type: ignore[union-attr]


def test_noise_gives_equal_digests_however_the_parties_are_placed(
    bundle: Path, compose_job: Compose, run_inline: Run
) -> None:
    common = ("dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=6", "rounds=3", "network.noise=0.1")
    digests = []
    for more in ((), ("network.clip=100",)):  # nothing is that long
        ended = run_inline(compose_job(*common, *more))[-1]
        assert isinstance(ended, Ended)
        digests.append(ended.digests)
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("network.bandwidth=0", "network.bandwidth: expected a positive number, got 0"),
        ("network.bits=2.5", "network.bits: expected a whole number from 1 to 16, got 2.5"),
        ("network.top_k=2", "network.top_k: expected a number above 0, up to 1, got 2"),
        ("network.noise={nobody:1}", "network.noise: unknown participant 'nobody'"),
    ],
)
def test_bad_keys_are_named(override: str, message: str, bundle: Path, compose_job: Compose) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_job("dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=6", override)
