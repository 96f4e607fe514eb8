"""What a trace file says of itself may be anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from flexray.core.errors import DataError
from flexray.traces.reading import read_trace, trace_info
from helpers.trace_files import native

COUNTS = "its note flexray.cleaning: expected a JSON mapping of kinds of fault to counts, got "
STEP = "its note flexray.step_s: expected seconds, a positive number, got "
FLAG = "its note flexray.synthetic: expected true or false, got "


def write(path: Path, **said: str) -> Path:
    return native(path, ["a", "a"], [0, 300], [0.1, 0.2], **said)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("cleaning", "[1, 2]", COUNTS + "'[1, 2]'"),
        ("cleaning", '"text"', COUNTS),
        ("cleaning", "null", COUNTS + "'null'"),
        ("cleaning", "", COUNTS + "''"),
        ("cleaning", "{", COUNTS + "'{'"),
        ("cleaning", '{"nan": "many"}', COUNTS),
        ("cleaning", '{"nan": -1}', COUNTS),
        ("cleaning", '{"nan": true}', COUNTS),
        ("cleaning", '{"nan": NaN}', COUNTS),
        ("cleaning", "[" * 10_000, COUNTS),
        ("cleaning", '{"a":' * 10_000, COUNTS),
        ("step_s", "five", STEP + "'five'"),
        ("step_s", "nan", STEP + "'nan'"),
        ("step_s", "inf", STEP),
        ("step_s", "-300", STEP),
        ("step_s", "0", STEP),
        ("synthetic", "perhaps", FLAG + "'perhaps'"),
    ],
)
def test_a_note_that_makes_no_sense_is_named(name: str, text: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", **{name: text})
    for read in (trace_info, read_trace):
        with pytest.raises(DataError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: {told}")
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 300


def test_notes_that_make_sense_are_read(tmp_path: Path) -> None:
    said = {"cleaning": '{"nan": 3}', "step_s": "300", "synthetic": "true", "source": "a\ncell"}
    info = trace_info(write(tmp_path / "t.parquet", **said))
    assert (info.cleaning, info.step_s, info.synthetic, info.source) == ({"nan": 3}, 300, True, "a cell")
    info = trace_info(write(tmp_path / "t.parquet"))
    assert (info.cleaning, info.step_s, info.synthetic, info.source) == ({}, 300, False, "t.parquet")
