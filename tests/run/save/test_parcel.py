"""A run folder on its way between machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from flexray.core.errors import RunFolderError
from flexray.run.save.parcel import pack, renamed, unpack


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_arrives_as_it_is(tmp_path: Path) -> None:
    there = write(tmp_path / "there", a="1", empty="", checkpoints__final__b="2")
    (there / "link").symlink_to(tmp_path)
    unpack(pack(there), tmp_path / "new" / "here")
    assert texts(tmp_path / "new" / "here") == {"a": "1", "empty": "", "checkpoints/final/b": "2"}
    assert pack(tmp_path / "nowhere") == {}


def test_what_the_job_deleted_is_deleted_at_home_and_nothing_else(tmp_path: Path) -> None:
    home = write(tmp_path / "home", old="1", kept="2")
    sent = pack(home)
    write(home, notes="of the user, meanwhile")
    there = write(tmp_path / "there", kept="3", new="4")
    unpack(pack(there), home, sent)
    assert texts(home) == {"kept": "3", "new": "4", "notes": "of the user, meanwhile"}


def test_a_run_is_complete_only_when_all_of_it_is_there(tmp_path: Path) -> None:
    home = write(tmp_path / "home", **{"summary.json": "old", "configuration.json": "old"})
    there = write(tmp_path / "there", **{"configuration.json": "new", "summary.json": "new", "z": "new"})
    (home / "z").mkdir()
    with pytest.raises(RunFolderError, match=r"z.tmp: cannot be written: "):
        unpack(pack(there), home)
    assert texts(home) == {}


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ""])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    parcel = pack(write(tmp_path / "there", a="1"))
    with pytest.raises(RunFolderError, match="expected the name of a file in it"):
        unpack({name: parcel["a"]}, tmp_path / "here")


def test_texts_name_the_folder_at_home(tmp_path: Path) -> None:
    parcel = pack(write(tmp_path / "there", log="in /tmp/x/sweep/3", other="/tmp/x/sweep"))
    unpack(renamed(parcel, "/tmp/x/sweep", "/home/me/out", ["log", "absent"]), tmp_path / "here")
    assert texts(tmp_path / "here") == {"log": "in /home/me/out/3", "other": "/tmp/x/sweep"}
