"""Promises that were checked, and what is said of those that were broken."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flexray.check.causes import Cause, is_users
from flexray.check.elsewhere import Elsewhere, travels
from flexray.core.errors import CheckError, FlexrayError, ParticipantError, blame


@dataclass(frozen=True, repr=False)
class Report:
    """The promises that a class keeps; its ``repr`` lists them.

    Args:
        subject: The class.
        kind: What it is for: a model, a dataset, ...
        promises: In the order in which they were checked.
        notes: What could not be checked, and why.
    """

    subject: str
    kind: str
    promises: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        count = f"{len(self.promises)} promise{'s' if len(self.promises) > 1 else ''}"
        lines = (f"{self.subject}, {self.kind}, keeps {count}:", *(f"  {promise}" for promise in self.promises))
        return "\n".join((*lines, *(f"  (not checked: {note})" for note in self.notes)))


ELSEWHERE = Cause("", "do without hash(), the order of a set, and what a module draws when it is imported")


class BrokenError(FlexrayError):
    """A promise is broken.

    Args:
        seen: What was seen.
        mend: How to mend it.
    """

    def __init__(self, seen: str, mend: str) -> None:
        super().__init__(seen, mend)
        self.seen, self.mend = seen, mend


class Checks:
    """The promises of one class, as they are checked.

    Args:
        subject: The class.
        kind: What it is for.
        target: The class itself, whose lines messages name.
        elsewhere: Applies a function to an object as another process gets it.
    """

    def __init__(self, subject: str, kind: str, target: Any, elsewhere: Elsewhere[Any] = travels) -> None:
        self.subject, self.kind, self.target, self.elsewhere = subject, kind, target, elsewhere
        self.place = ""
        """Where the class stands now, such as ``as the server``, for messages."""
        self._kept: dict[str, None] = {}
        self._failures: dict[str, str] = {}
        self.notes: list[str] = []

    @contextmanager
    def promise(self, text: str, mend: str = "") -> Iterator[None]:
        """Note a promise as kept, or as broken if anything is raised.

        Args:
            text: The promise, such as ``the same seed gives the same numbers``.
            mend: How to mend it, for errors that do not say so.
        """
        try:
            with blame(self.subject, text):
                yield
        except BrokenError as error:
            self._break(text, f"{error.seen}; {error.mend}")
        except FlexrayError as error:
            self._break(text, self._said(error) + (f"; {mend}" if mend else ""))
        else:
            self._kept[text] = None

    def _break(self, text: str, seen: str) -> None:
        place = f" ({self.place})" if self.place else ""
        self._failures.setdefault(text, f"{text}{place}: {seen}")

    def broke(self, *texts: str) -> bool:
        """Return whether one of these promises was broken so far; without any, whether one at all was."""
        return bool(self._failures.keys() & texts if texts else self._failures)

    def report(self) -> Report:
        """Return the report.

        Raises:
            CheckError: A promise was broken.
        """
        kept = [text for text in self._kept if text not in self._failures]
        if self._failures:
            raise CheckError(self.subject, self._failures.values(), len(kept))
        return Report(self.subject, self.kind, tuple(kept), tuple(dict.fromkeys(self.notes)))

    def _said(self, error: FlexrayError) -> str:
        """Return an error in one line, with the user's line if the user's code raised it."""
        if not isinstance(error, ParticipantError):
            return str(error)
        phase = "" if error.participant == self.subject else f" in {error.phase}"
        cause = error.__cause__
        frames = traceback.extract_tb(cause.__traceback__) if cause is not None else ()
        own = [frame for frame in frames if is_users(frame.filename, self.target)]
        place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
        return f"{error.cause}{phase}{place}"


def same(found: Any, expected: Any, what: str, otherwise: Cause, causes: Callable[[], Sequence[Cause]] = tuple) -> None:
    """Refuse numbers that differ, by what may have caused it.

    Args:
        found: Anything that compares as a whole.
        expected: What it should equal.
        what: What differs, for the message.
        otherwise: What is said where nothing was seen.
        causes: Returns what was seen meanwhile that may be the reason.

    Raises:
        BrokenError: They differ.
    """
    if found != expected:
        reasons = causes() or [otherwise]
        seen = " and ".join(dict.fromkeys(cause.seen for cause in reasons if cause.seen))
        mend = "; ".join(dict.fromkeys(cause.mend for cause in reasons))
        raise BrokenError(f"{what}: {seen}" if seen else what, mend)
