"""Files that are named as pictures are, and are something else."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from PIL import Image

from flexray.core.errors import DataError
from flexray.data.pictures import Files


def test_a_program_named_as_a_picture_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands PostScript to Ghostscript."""
    file = tmp_path / "picture.png"
    file.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n")
    Image.init()
    monkeypatch.setattr(subprocess, "check_call", lambda *a, **k: pytest.fail("a program was started"))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a program was started"))
    with pytest.raises(DataError, match=rf"^{file}: cannot be read as a picture \(cannot identify image file"):
        Files([str(file)], 3).open(0)


@pytest.mark.parametrize("side", [14_000, 100_000])
def test_a_picture_larger_than_any_is_refused_by_its_header(side: int, tmp_path: Path) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    file = tmp_path / "picture.png"
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    )
    with pytest.raises(DataError, match=rf"^{file}: ") as caught:
        Files([str(file)], 3).open(0)
    assert "pixels" in str(caught.value)
