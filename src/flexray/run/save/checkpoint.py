"""Checkpoints: a safetensors file and a JSON file each, with checksums; nothing in them is unpickled or executed.

``round-120.safetensors`` holds the arrays of all participants; ``round-120.json``, written after it, everything else:
the driver's clock and heap, the state of the observers, the configuration, and the checksums of both files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexray.core.conforming import conforms
from flexray.core.errors import RunFolderError
from flexray.core.messages import Saved, Snapshot, State
from flexray.core.runfolder import parse_json
from flexray.run.save.storage import Storage
from flexray.run.watch.base import ObserverState

FORMAT = 2
CONTENT = {
    "round": int, "sim_time": float, "driver": dict[str, Any], "marks": dict[str, Any], "config": dict[str, Any],
    "participants": dict[str, dict[str, Any]], "arrays_sha256": str,
}  # fmt: skip
NAME = re.compile(r"round-(\d+)\.(json|safetensors)(\.tmp)?")

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot with the state of its run's observers and the configuration.

    Args:
        snapshot: State of the driver and the participants.
        observers: State of the observers.
        config: The run's configuration.
    """

    snapshot: Snapshot
    observers: ObserverState
    config: Mapping[str, Any]


class CheckpointStore:
    """Writes and finds the checkpoints of one run.

    Args:
        storage: Their folder.
        keep: Number of checkpoints to keep, the last ones.
    """

    def __init__(self, storage: Storage, keep: int) -> None:
        self.storage = storage
        self._keep = keep

    def write(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and delete those beyond the number to keep."""
        from safetensors.numpy import save

        snapshot = checkpoint.snapshot
        blob = save(
            {
                f"{place}.{key}": np.asarray(value, order="C")
                for place, saved in enumerate(snapshot.participants.values())
                for key, value in saved.arrays.items()
            }
        )
        content = {
            "format": FORMAT,
            "round": snapshot.round,
            "sim_time": snapshot.sim_time,
            "driver": snapshot.driver,
            "participants": {name: saved.notes for name, saved in snapshot.participants.items()},
            "marks": checkpoint.observers,
            "config": checkpoint.config,
            "arrays_sha256": hashlib.sha256(blob).hexdigest(),
        }
        text = json.dumps(content)
        sealed = f'{{"sha256": "{_sha(text)}", "content": {text}}}\n'
        self.storage.write(f"round-{snapshot.round}.safetensors", blob)
        self.storage.write(f"round-{snapshot.round}.json", sealed.encode())
        self.clear(self.rounds()[: self._keep])

    def clear(self, but: Collection[int] = ()) -> None:
        """Delete all checkpoints but those of some rounds, and files that were not finished."""
        for name in sorted(self.storage.names()):  # .json before .safetensors
            match = NAME.fullmatch(name)
            if match and (int(match[1]) not in but or match[3]):
                self.storage.delete(name)

    def rounds(self) -> list[int]:
        """Return the rounds of all checkpoints, the last one first."""
        found = (NAME.fullmatch(name) for name in self.storage.names())
        return sorted((int(m[1]) for m in found if m and m[2] == "json" and not m[3]), reverse=True)

    def newest(self) -> Checkpoint | None:
        """Return the last checkpoint that is whole, warning of those that are not; None if there is none at all.

        Raises:
            flexray.core.errors.RunFolderError: There are some, but none is whole.
        """
        rounds, faults = self.rounds(), []
        for number in rounds:
            try:
                found = self._read(number)
            except (RunFolderError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as error:
                reason = error if isinstance(error, RunFolderError | ValueError) else f"it lacks {error}"
                faults.append(f"the checkpoint of round {number} is damaged and not used: {reason}")
                continue
            for fault in faults:
                log.warning("%s", fault)
            return found
        if rounds:
            raise RunFolderError(f"no checkpoint can be used, of rounds {rounds}: {'; '.join(faults)}")
        return None

    def _read(self, number: int) -> Checkpoint:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        name = f"round-{number}"
        sealed = parse_json(f"{name}.json", self.storage.read(f"{name}.json").decode())
        content = sealed["content"]
        if _sha(json.dumps(content)) != sealed["sha256"]:
            raise ValueError(f"{name}.json does not have its checksum")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{name}.json: expected an object of format {FORMAT}")
        for key, kind in CONTENT.items():
            if not conforms(content.get(key), kind):
                raise ValueError(f"{name}.json: {key}: expected {_in_words(kind)}, got {str(content.get(key))[:60]!r}")
        if content["round"] != number or not 0 <= content["sim_time"] < math.inf:
            raise ValueError(f"{name}.json: is of round {content['round']}, time {content['sim_time']}")
        blob = self.storage.read(f"{name}.safetensors")
        if hashlib.sha256(blob).hexdigest() != content["arrays_sha256"]:
            raise ValueError(f"{name}.safetensors does not have its checksum")
        try:
            arrays = load(blob)
        except SafetensorError as error:
            raise ValueError(f"{name}.safetensors: {error}") from error
        participants = dict(_participants(content["participants"], arrays))
        snapshot = Snapshot(number, float(content["sim_time"]), content["driver"], participants, durable=True)
        return Checkpoint(snapshot, content["marks"], content["config"])


def _in_words(kind: Any) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}.get(kind, "a mapping")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _participants(notes: Mapping[str, Any], arrays: State) -> Iterator[tuple[str, Saved]]:
    parts: list[State] = [{} for _ in notes]
    for key, value in arrays.items():
        place, _, name = key.partition(".")
        parts[int(place)][name] = value
    for (who, own), part in zip(notes.items(), parts, strict=True):
        yield who, Saved(part, own)
