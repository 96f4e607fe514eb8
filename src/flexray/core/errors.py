"""What can go wrong, as a tree.

    FlexrayError
    ├── UserError            a mistake in what the user gave: one line, exit status 2
    │   ├── ConfigError      a key of the configuration
    │   ├── DataError        a file, row or column of the data
    │   ├── ResourceError    the machine or cluster cannot meet the demand
    │   ├── RunFolderError   a run folder that cannot be read or written
    │   └── CheckError       a class of the user's that breaks promises: a line for each (flexray.check)
    └── ParticipantError     code of a party or of the server raised: exit status 1, traceback once
        └── LostProcessError a process died or hangs; the run goes on from its last snapshot

Every message names the key, file, row or participant at fault and says what was expected.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class FlexrayError(Exception):
    """Base of all errors that flexray raises on purpose."""

    exit_status = 1


LONGEST = 1000
"""Characters of a message; of a longer one the middle is left out, such as thousands of columns of a damaged file."""


def printable(text: str) -> str:
    """Return a text in which line ends and what a terminal would obey, as a file may hold them, are escaped."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 300]} ... {line[-295:]}"


class UserError(FlexrayError, ValueError):
    """A mistake in what the user gave; the message is one line."""

    exit_status = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class ConfigError(UserError):
    """A key of the configuration is unknown, of the wrong type or out of range."""


class DataError(UserError):
    """A file, row or column of the data cannot be used as it is."""


class ResourceError(UserError):
    """More CPUs, GPUs or custom resources are asked for than there are."""


class RunFolderError(UserError):
    """A run folder cannot be read or written."""


class CheckError(UserError):
    """A class of the user's breaks promises.

    Args:
        subject: The class.
        failures: A line for each broken promise: the promise, what was seen, how to mend it.
        kept: How many promises it keeps.
    """

    def __init__(self, subject: str, failures: Iterable[str], kept: int = 0) -> None:
        lines = tuple(printable(line) for line in failures)
        super(UserError, self).__init__(subject, lines, kept)
        self.subject, self.failures, self.kept = subject, lines, kept

    def __str__(self) -> str:
        of = len(self.failures) + self.kept
        head = f"{self.subject} breaks {len(self.failures)} of {of} promise{'s' if of > 1 else ''}"
        return "\n".join((f"{head}:", *(f"  {line}" for line in self.failures)))


class ParticipantError(FlexrayError, RuntimeError):
    """Code of one participant raised (a user's model, optimizer or dataset).

    It carries text only, so that it survives pickling whatever the cause was.

    Args:
        participant: Name of the party, or ``server``.
        phase: What it was doing, for example ``round 3``.
        cause: Type and message of the original exception.
        trace: The original traceback as text.
    """

    def __init__(self, participant: str, phase: str, cause: str, trace: str = "") -> None:
        super().__init__(participant, phase, cause, trace)
        self.participant = participant
        self.phase = phase
        self.cause = cause
        self.trace = trace

    def __str__(self) -> str:
        return f"{self.participant} failed in {self.phase}: {self.cause}"


class LostProcessError(ParticipantError):
    """A process died, a node went away, or nothing happened for too long; not the fault of the code that ran."""


SYNONYMS = {"gpu": "cuda"}
"""What people call a choice that has another name."""


def near_match(word: Any, choices: Iterable[str], list_all: bool = True) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest choice; if none is close, the list of choices or nothing."""
    known = sorted(set(choices))
    by_lower = {choice.lower(): choice for choice in known}
    lower = str(word).lower()
    meant = [SYNONYMS[lower]] if SYNONYMS.get(lower) in by_lower else difflib.get_close_matches(lower, by_lower, 1)
    if meant:
        return f"; did you mean '{by_lower[meant[0]]}'?"
    return f"; expected one of: {', '.join(known)}" if known and list_all else ""


@contextmanager
def blame(participant: str, phase: str) -> Iterator[None]:
    """Turn an exception of a user's code into one that names the participant and survives pickling."""
    try:
        yield
    except FlexrayError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        if is_lack_of_memory(error):
            raise ResourceError(
                f"{participant}: not enough memory in {phase}: {cause.rpartition('err == 0. ')[2]}"
            ) from error
        raise ParticipantError(participant, phase, cause, traceback.format_exc()) from error


REFUSALS = ("can't allocate memory", "out of memory", "Overflow when unpacking", "Storage size calculation overflowed")
"""What PyTorch says of a tensor that is too large: there are no classes for it but on GPUs."""


def is_lack_of_memory(error: Exception) -> bool:
    """Whether an exception of PyTorch, NumPy or Python says that something needs more memory than there is."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | TypeError) and any(words in str(error) for words in REFUSALS)
    )
