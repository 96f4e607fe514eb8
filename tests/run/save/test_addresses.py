"""``checkpoint.dir`` with an address that is of no use: one line, soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flexray.core.errors import RunFolderError
from flexray.run.save import storage


@pytest.mark.parametrize(
    "address",
    [
        "zip://x.zip", "zip://a::file:///nowhere.zip", "ftp://127.0.0.1:9/x", "github://", "reference://",
        "reference://x", "generic://x", "jupyter://x", "data://x", "file:///dev/null/x", "nowhere://x", "://x",
        "nowhere::file:///x", "a://b::c://d",
    ],
)  # fmt: skip
def test_an_address_of_no_use_is_told_in_one_line(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError, match=r"checkpoint\.dir: ") as caught:
        storage.open_storage(address).probe()
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_a_place_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 0.05)
    place = storage.open_storage("memory://flexray-slow")
    monkeypatch.setattr(storage.RemoteStorage, "write", lambda *_: time.sleep(0.5))
    with pytest.raises(RunFolderError, match=r"probe: cannot be written: TimeoutError: no answer within 0\.05 s"):
        place.probe()
