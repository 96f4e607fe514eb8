"""Damaged and odd files of every format: each loads, or is refused in one line that names it."""

from __future__ import annotations

import os
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flexray.core.errors import UserError
from helpers.damaged_files import KINDS, npy

GIB = 1 << 30
SECONDS = 10.0
Damage = Callable[[bytes, dict[str, bytes]], bytes]

WORDS = [
    b"1e400", b"-1", b"nan", b"0x10", b"99999999999999999999", b"\"", b"\n", b",", b"\0", b"\xff\xfe", b"True", b"()",
    b"-", b"[", b"{", b"'", b"9" * 5000, b"[" * 3000, b"\r", b"\xef\xbb\xbf", b" ", b"1_0", b"1.5", b"", b"<U0", b"|O",
]  # fmt: skip
"""What readers of texts stumble over."""
places = st.floats(0, 1)


def at(place: float, data: bytes) -> int:
    return min(int(place * len(data)), max(0, len(data) - 1))


@st.composite
def flips(draw: st.DrawFn) -> Damage:
    changes = draw(st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=4))

    def damage(data: bytes, others: dict[str, bytes]) -> bytes:
        changed = bytearray(data)
        for place, bits in changes if data else ():
            changed[at(place, data)] ^= bits
        return bytes(changed)

    return damage


@st.composite
def splices(draw: st.DrawFn) -> Damage:
    place, length = draw(places), draw(st.integers(0, 12))
    words = draw(st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=8)), min_size=1, max_size=3))
    return lambda data, others: data[: at(place, data)] + b"".join(words) + data[at(place, data) + length :]


@st.composite
def others(draw: st.DrawFn) -> Damage:
    """Replace all by nothing, by zeros, or by a file of another kind; or add to its end, or cut it."""
    kind, place = draw(st.sampled_from(sorted(KINDS))), draw(places)
    return draw(
        st.sampled_from(
            [
                lambda data, others: b"",
                lambda data, others: bytes(len(data)),
                lambda data, others: others[kind],
                lambda data, others: data + others[kind],
                lambda data, others: data[: at(place, data)],
                lambda data, others: data[: at(place, data)] + bytes(len(data) - at(place, data)),
                lambda data, others: data * 3,
            ]
        )
    )


@st.composite
def headers(draw: st.DrawFn) -> Damage:
    """Give an array a header of its own; other files come after one."""
    lengths = st.one_of(st.integers(-2, 40), st.sampled_from([10**6, 10**9, 2**62, 2**63, 10**30, True, 2.0, None]))
    shape = draw(st.one_of(st.lists(lengths, max_size=4).map(tuple), st.sampled_from([(1,) * 70, 5, None, (24, 2, 3)])))
    descr = draw(st.sampled_from(["<f4", ">f8", "<i8", "|b1", "|O", "<U0", "<U9", "|S4", "<M8[s]", "c16", "", 7, None,
                                  [("a", "<f4")], "<f4,<f4", "<U99999999999"]))  # fmt: skip
    fortran = draw(st.sampled_from([True, False, 2]))
    return lambda data, others: npy(descr, fortran, shape, data[128:])


damages = st.lists(st.one_of(flips(), flips(), splices(), splices(), others(), headers()), min_size=1, max_size=2)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a good file of every kind, each in a folder of its own, where it loads."""
    root = tmp_path_factory.mktemp("fuzz")
    made = {}
    for name, kind in KINDS.items():
        folder = root / name.replace("/", "-").replace(" ", "-")
        folder.mkdir()
        made[name] = kind.write(folder)
        kind.use(made[name])
    return made


@pytest.fixture
def _little_memory() -> Iterator[None]:
    """Leave this process 4 GiB more address space than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4 * GIB, hard))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GIB >> 10


def loads_or_is_refused(name: str, file: Path, root: Path) -> bool:
    """Return whether it loads; fail if it ends otherwise than in one line that names the file or its folder."""
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Pillow's and NumPy's, which are told and change nothing
            KINDS[name].use(file)
        refusal = None
    except UserError as error:
        refusal = str(error)
    assert time.monotonic() - began < SECONDS
    assert refusal is None or (str(root) in refusal and len(refusal.splitlines()) == 1 and len(refusal) < 1500), refusal
    return refusal is None


@pytest.mark.usefixtures("_little_memory")
def test_a_damaged_file_loads_or_is_refused_in_one_line(request: pytest.FixtureRequest, good: dict[str, Path]) -> None:
    contents = {name: file.read_bytes() for name, file in good.items()}
    outcomes = {True: 0, False: 0}

    @hypothesis.seed(request.config.getoption("--fuzz-seed"))
    @settings(
        max_examples=request.config.getoption("--fuzz-examples") or 250,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(sorted(KINDS)), damages)
    def check(name: str, changes: list[Damage]) -> None:
        data = contents[name]
        for change in changes:
            data = change(data, contents)
        file = good[name]
        root = next(path for path in file.parents if path.parent.name.startswith("fuzz"))
        if not name.startswith("store"):
            shutil.rmtree(root / "cache", ignore_errors=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        try:
            outcomes[loads_or_is_refused(name, file, root)] += 1
        finally:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(contents[name])

    check()
    print(f"{outcomes[True]} loaded, {outcomes[False]} refused")
    assert min(outcomes.values()) > 0


def pipe(file: Path) -> None:
    os.mkfifo(file)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("make", [pipe, device, folder])
def test_what_is_no_regular_file_is_refused_at_once(make: Callable[[Path], None], good: dict[str, Path]) -> None:
    for name, file in good.items():
        root = next(path for path in file.parents if path.parent.name.startswith("fuzz"))
        content = file.read_bytes()
        if not name.startswith("store"):
            shutil.rmtree(root / "cache", ignore_errors=True)
        file.unlink()
        make(file)
        assert loads_or_is_refused(name, file, root) == name.startswith("store"), name
        if not file.is_dir() or file.is_symlink():
            file.unlink(missing_ok=True)
        else:
            file.rmdir()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
