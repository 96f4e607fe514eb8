"""What a calibration measures: raw seconds, before they are summed up in a file.

Outer tuples hold the parties 1..K, then the server; inner ones hold one number per repetition.
"""

from __future__ import annotations

from dataclasses import dataclass

Samples = tuple[float, ...]


@dataclass(frozen=True)
class Timings:
    """Seconds of participants on their own processes.

    Args:
        names: Participants, ``server`` last.
        process: Number of the process of each.
        machine: Name of its machine.
        alone: A local iteration while all other processes rest; nothing of those that take none.
        first: The first local iteration of a round, likewise.
        together: A local iteration while everybody takes some.
        embedding: The embeddings of a batch; nothing of the server.
        rounds: Whole rounds in which everybody takes one local iteration.
        turn: A turn of VAFL while no other party takes any, all included; nothing of the server.
        answer: The server's answer in a turn.
        between: What the server's process computes from one answer to the next: messages.
        driver: What the driver computes in a turn while all parties take some.
        small: A call and its answer between driver and party, without content; nothing of the server.
        round_message: The same with the bytes of a round; nothing of the server.
        round_bytes: Bytes of a round, both directions, per party.
        turn_bytes: The same of a turn.
        evaluation: An evaluation of all samples.
    """

    names: tuple[str, ...]
    process: tuple[int, ...]
    machine: tuple[str, ...]
    alone: tuple[Samples, ...]
    first: tuple[Samples, ...]
    together: tuple[Samples, ...]
    embedding: tuple[Samples, ...]
    rounds: Samples
    turn: tuple[Samples, ...]
    answer: Samples
    small: tuple[Samples, ...]
    round_message: tuple[Samples, ...]
    round_bytes: tuple[int, ...]
    turn_bytes: tuple[int, ...]
    evaluation: Samples
    between: Samples = ()
    driver: Samples = ()
