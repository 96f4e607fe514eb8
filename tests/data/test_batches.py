import numpy as np
import pytest

from flexray.core.errors import ConfigError
from flexray.data.batches import BatchStream


def epoch_sizes(stream, epoch=0):
    first = epoch * stream.per_epoch
    batches = [stream.batch(first + place) for place in range(stream.per_epoch)]
    assert [batch.epoch for batch in batches] == [epoch] * stream.per_epoch
    return [len(batch.ids_b) for batch in batches]


@pytest.mark.parametrize(
    ("samples", "size", "drop_last", "sizes"),
    [
        (12, 4, False, [4, 4, 4]),
        (12, 4, True, [4, 4, 4]),
        (14, 4, False, [4, 4, 4, 2]),
        (14, 4, True, [4, 4, 4]),
        (13, 4, False, [4, 4, 5]),
        (13, 4, True, [4, 4, 4]),
        (3, 1, False, [1, 1, 1]),
        (5, 5, False, [5]),
        (5, 4, False, [5]),
        (1, 1, False, [1]),
    ],
)
def test_sizes_of_one_epoch(samples, size, drop_last, sizes):
    stream = BatchStream(samples, size, seed=1, drop_last=drop_last)
    assert epoch_sizes(stream) == sizes
    assert epoch_sizes(stream, epoch=3) == sizes


@pytest.mark.parametrize(("samples", "size"), [(12, 4), (14, 4), (13, 4), (5, 1), (5, 5)])
def test_every_epoch_is_a_fresh_permutation_of_all(samples, size):
    stream = BatchStream(samples, size, seed=2)
    orders = [
        np.concatenate([stream.batch(epoch * stream.per_epoch + place).ids_b for place in range(stream.per_epoch)])
        for epoch in range(2)
    ]
    for order in orders:
        assert sorted(order.tolist()) == list(range(samples))
    assert orders[0].tolist() != orders[1].tolist()


def test_drop_last_never_repeats_a_sample_within_an_epoch():
    stream = BatchStream(14, 4, seed=2, drop_last=True)
    order = np.concatenate([stream.batch(place).ids_b for place in range(3)])
    assert len(set(order.tolist())) == 12


def test_replacement_draws_uniformly_and_counts_epochs():
    stream = BatchStream(10, 4, seed=3, replacement=True)
    batches = [stream.batch(index) for index in range(3000)]
    assert {len(batch.ids_b) for batch in batches} == {4}
    assert [batch.epoch for batch in batches[:7]] == [0, 0, 0, 1, 1, 1, 2]
    counts = np.bincount(np.concatenate([batch.ids_b for batch in batches]), minlength=10)
    assert counts.sum() == 12000
    assert np.abs(counts - 1200).max() < 150
    assert any(len(set(batch.ids_b.tolist())) < 4 for batch in batches)


@pytest.mark.parametrize("replacement", [False, True])
def test_batches_do_not_depend_on_the_order_of_access(replacement):
    forward = BatchStream(13, 4, seed=5, replacement=replacement)
    backward = BatchStream(13, 4, seed=5, replacement=replacement)
    expected = [forward.batch(index).ids_b.tolist() for index in range(9)]
    assert [backward.batch(index).ids_b.tolist() for index in reversed(range(9))] == expected[::-1]
    assert backward.batch(4).ids_b.tolist() == backward.batch(4).ids_b.tolist() == expected[4]


@pytest.mark.parametrize("other", [{"seed": 6}, {"seed": 5, "stream": "party 1"}])
def test_seed_and_stream_change_the_batches(other):
    first, second = BatchStream(50, 10, seed=5), BatchStream(50, 10, **other)
    assert first.batch(0).ids_b.tolist() != second.batch(0).ids_b.tolist()


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_batch_size_out_of_range_is_named(size):
    with pytest.raises(ConfigError, match=rf"^dataset\.batch_size: expected 1 to 10 .* got {size}$"):
        BatchStream(10, size, seed=0)
