import contextlib
import os
import pickle
import resource
import subprocess

import numpy as np
import pytest
import torch

from flexray.core.errors import DataError
from flexray.data.sentiment import Sentiment
from flexray.data.sentiment.samples import as_text
from flexray.data.sentiment.unpickling import load_pickle
from helpers.sentiment_files import infomax, mmsa

PLAIN = {
    "list": [1, 2.5, "a", None, True, b"x", (1, 2), {3}, frozenset({4}), bytearray(b"y"), 1j],
    "arrays": [np.arange(6.0).reshape(2, 3), np.arange(3)[::2], np.asfortranarray(np.ones((2, 2)))],
    "objects": np.array(["a", [1]], dtype=object),
    "texts": np.array(["ab", "c"]),
    "others": [np.array([b"ab"]), np.arange(3, dtype=">i4"), np.array([True]), np.zeros((0, 3)), np.array(2 + 1j)],
    "long": [np.arange(3000.0).reshape(3, 1000), np.array([["long"] * 900, [None] * 900], dtype=object)],
    "scalars": [np.float32(1.5), np.int64(3), np.str_("a"), np.str_(""), np.bool_(True), np.bytes_(b"a")],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_numpy_and_plain_containers_come_out(protocol, tmp_path):
    file = tmp_path / "a.pkl"
    file.write_bytes(pickle.dumps(PLAIN, protocol))
    found = load_pickle(file)
    assert found["list"] == PLAIN["list"]
    for name in ("arrays", "others", "long", "scalars"):
        for a, b in zip(found[name], PLAIN[name], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")  # NumPy swaps while it reads
    np.testing.assert_array_equal(found["objects"], PLAIN["objects"])
    np.testing.assert_array_equal(found["texts"], PLAIN["texts"])


class Runs:
    """A pickle of it calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self._call = (function, arguments)

    def __reduce__(self):
        return self._call


HOSTILE = {
    "os.system": lambda file: Runs(os.system, f"touch {file}"),
    "eval": lambda file: Runs(eval, f"open({str(file)!r}, 'w')"),
    "exec": lambda file: Runs(exec, f"open({str(file)!r}, 'w')"),
    "open": lambda file: Runs(open, str(file), "w"),
    "subprocess": lambda file: Runs(subprocess.check_call, ["touch", str(file)]),
    "getattr": lambda file: Runs(getattr, "", "format"),
    "np.load": lambda file: Runs(np.load, str(file)),
    "np.save": lambda file: Runs(np.save, str(file), 1),
    "torch": lambda file: torch.ones(2),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("depth", ["top", "inside a sample", "inside an array"])
def test_a_hostile_pickle_is_refused_and_nothing_runs(kind, depth, tmp_path):
    made = tmp_path / "made"
    bad = HOSTILE[kind](made)
    if depth == "inside a sample":
        bad = [((["a"], np.ones((2, 2)), bad, ["a"], 2, 2), np.ones((1, 1)), "id")]
    elif depth == "inside an array":
        bad = np.array([bad, 1], dtype=object)
    folder = infomax(tmp_path / "data")
    (folder / "train.pkl").write_bytes(pickle.dumps(bad))
    with pytest.raises(
        DataError, match=r"train.pkl: refused, since this pickle asks for \S+; expected NumPy arrays"
    ) as e:
        Sentiment(folder, cache=tmp_path / "cache").outline()
    assert "\n" not in str(e.value)
    assert not made.exists()


@pytest.mark.parametrize("codec", ["rot13", "none", "hex"])
def test_a_codec_that_is_not_latin1_is_refused(codec, tmp_path):
    file = tmp_path / "a.pkl"
    file.write_bytes(b"c_codecs\nencode\n(Vx\nV%s\ntR." % codec.encode())
    with pytest.raises(DataError) as caught:
        load_pickle(file)
    wanted = "expected NumPy arrays and plain containers only"
    assert str(caught.value) == f"{file}: refused, since this pickle asks for the codec {codec}; {wanted}"


class Built(Runs):
    """A pickle of it calls a function and gives the result a state, or several."""

    def __init__(self, function, *arguments, state):
        super().__init__(function, *arguments)
        self._state = state

    def __reduce__(self):
        return (*self._call, self._state)


POINTERS = b"A" * 8
OBJECT, RECORD = np.dtype("O"), np.dtype([("a", "O")])
REBUILD, SCALAR = np.ones(1).__reduce__()[0], np.float64(1).__reduce__()[0]
FROM_BUFFER = np.ones(1).__reduce_ex__(5)[0]


def forged(flags=0, names=("a",), fields=None, subdtype=None, text="V8"):
    return Built(np.dtype, text, False, True, state=(3, "|", subdtype, names, fields, 8, 1, flags))


def array(shape, dtype, content):
    return Built(REBUILD, np.ndarray, (0,), b"b", state=(1, shape, dtype, False, content))


FORGED = {
    "ndarray": lambda: Runs(np.ndarray, (1,), "O", POINTERS),
    "ndarray, record": lambda: Runs(np.ndarray, (1,), forged(fields={"a": (OBJECT, 0)}), POINTERS),
    "frombuffer, object": lambda: Runs(FROM_BUFFER, POINTERS, OBJECT, (1,), "C"),
    "frombuffer, record": lambda: Runs(FROM_BUFFER, POINTERS, forged(fields={"a": (OBJECT, 0)}), (1,), "C"),
    "frombuffer of objects": lambda: Runs(FROM_BUFFER, np.array([None]), np.dtype("i8"), (1,), "C"),
    "scalar, object": lambda: Runs(SCALAR, OBJECT, POINTERS),
    "scalar, record": lambda: Runs(SCALAR, RECORD, POINTERS),
    "scalar, too short": lambda: Runs(SCALAR, np.dtype("f8"), b"A"),
    "array, object": lambda: array((1,), OBJECT, POINTERS),
    "array, object as text": lambda: array((1,), OBJECT, "A" * 8),
    "array, record": lambda: array((1,), RECORD, POINTERS),
    "array, forged record": lambda: array((1,), forged(fields={"a": (OBJECT, 0)}), POINTERS),
    "array, fields on numbers": lambda: array((1,), forged(text="f8", fields={"a": (OBJECT, 0)}), POINTERS),
    "array, subarray": lambda: array((1,), forged(text="f8", names=None, subdtype=(OBJECT, (1,))), POINTERS),
    "array, a dtype's name": lambda: array((1,), "O", POINTERS),
    "array, void": lambda: array((1,), np.dtype("V8"), POINTERS),
    "array, list of numbers": lambda: array((1,), np.dtype("f8"), [1.0]),
    "array, too few objects": lambda: array((9,), OBJECT, [1]),
    "array, too many objects": lambda: array((1,), OBJECT, [1, 2]),
    "array, small integers overflow": lambda: array((np.uint8(16), np.uint8(16)), OBJECT, []),
    "array, too few bytes": lambda: array((9,), np.dtype("f8"), POINTERS),
    "array, negative": lambda: array((-1, -1), np.dtype("f8"), POINTERS),
    "array, too many axes": lambda: array((0,) * 70, np.dtype("f8"), b""),
    "array, no characters": lambda: array((1,), np.dtype("U2"), b"\xff" * 8),
    "frombuffer, no characters": lambda: Runs(FROM_BUFFER, b"\xff" * 8, np.dtype("U2"), (1,), "C"),
    "scalar, no characters": lambda: Runs(SCALAR, np.dtype("U2"), b"\xff" * 8),
    "array of another class": lambda: Built(REBUILD, list, (0,), b"b", state=(1, (1,), OBJECT, False, [1])),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_array_is_refused_before_numpy_sees_it(kind, tmp_path):
    file = tmp_path / "a.pkl"
    file.write_bytes(pickle.dumps(FORGED[kind](), 4))
    with pytest.raises(DataError, match=rf"^{file}: (refused, since this pickle asks for|is cut off or no) ") as caught:
        load_pickle(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(str(file)) == 1


MADE = {"array": np.ones((2, 2)), "buffer": Runs(FROM_BUFFER, POINTERS, np.dtype("f8"), (1,), "C")}


@pytest.mark.parametrize("first", MADE)
def test_an_array_is_filled_once(first, tmp_path):
    """A second state would free the memory that views of the first still show."""
    file = tmp_path / "a.pkl"
    state = pickle.dumps((1, (1,), np.dtype("f8"), False, POINTERS), 2)
    file.write_bytes(pickle.dumps(MADE[first], 2)[:-1] + state[2:-1] + b"b.")
    with pytest.raises(DataError, match="refused, since this pickle asks for an array that is filled twice; expected"):
        load_pickle(file)


@pytest.mark.parametrize("layout", ["train.pkl", "aligned_50.pkl"])
@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.99])
def test_a_truncated_pickle_is_named(layout, part, tmp_path):
    folder = infomax(tmp_path / "data") if layout == "train.pkl" else mmsa(tmp_path / "data" / layout).parent
    file = folder / layout
    content = file.read_bytes()
    file.write_bytes(content[: int(part * len(content))])
    with pytest.raises(DataError, match=rf"{layout}: is (cut off or no pickle|empty \(0 bytes\))") as caught:
        Sentiment(folder, cache=tmp_path / "cache").outline()
    assert "\n" not in str(caught.value)


def test_a_garbled_byte_ends_in_an_error_of_ours_or_in_data(tmp_path):
    file = infomax(tmp_path / "data") / "dev.pkl"
    content = file.read_bytes()
    draw = np.random.default_rng(3)
    for place in draw.integers(len(content), size=300):
        file.write_bytes(content[:place] + bytes([draw.integers(256)]) + content[place + 1 :])
        with contextlib.suppress(DataError):
            load_pickle(file)


SAMPLE = ((["a"], np.ones((2, 2)), np.ones((2, 2)), ["a"], 2, 2), np.ones((1, 1)), "id")
WRONG = {
    r"train.pkl: expected a list of samples \(\(words, .*, got dict": {"a": 1},
    r"train.pkl: expected a list of samples .*, got an empty list": [],
    r"train.pkl: sample 1: expected \(\(words, .*, got int": [SAMPLE, 3],
    r"train.pkl: sample 0: expected 6 \(aligned: 4\) entries .*, got 2": [((["a"], ["b"]), np.ones((1, 1)), "id")],
    r"train.pkl: sample 0: visual: expected an array \[steps, features\], got str of 1": [
        ((["a"], "x", np.ones((2, 2)), ["a"], 2, 2), np.ones((1, 1)), "id")
    ],
    r"train.pkl: sample 0: expected a label of numbers": [(SAMPLE[0], "good", "id")],
    r"train.pkl: video: sample 1: ID 'id' is already in sample 0": [SAMPLE, SAMPLE],
    r"train.pkl: audio: sample 1 has 3 features, but the first of .*train.pkl: audio 2$": [
        SAMPLE, ((["a"], np.ones((2, 2)), np.ones((2, 3)), ["a"], 2, 2), np.ones((1, 1)), "other")
    ],
    r"train.pkl: no sample has all of video, audio, text": [
        ((["a"], np.zeros((2, 2)), np.ones((2, 2)), ["a"], 2, 2), np.ones((1, 1)), "id")
    ],
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_sample_is_named(message, tmp_path):
    folder = infomax(tmp_path / "data")
    (folder / "train.pkl").write_bytes(pickle.dumps(WRONG[message]))
    with pytest.raises(DataError, match=message):
        Sentiment(folder, cache=tmp_path / "cache").outline()
    assert not list((tmp_path / "cache").glob("*"))  # nothing half-made stays


def test_a_place_for_four_thousand_million_objects_takes_no_memory(tmp_path):
    file = tmp_path / "a.pkl"
    file.write_bytes(b"\x80\x02]r\xff\xff\xff\xff.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert load_pickle(file) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


def test_an_id_in_ten_thousand_lists_is_read(tmp_path):
    nested = "id"
    for _ in range(10_000):
        nested = [nested]
    assert as_text(nested) == "id"
    loop = {}
    loop["self"] = loop
    assert as_text([loop]).startswith("{'self': {'self': ")
