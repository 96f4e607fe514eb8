"""Faults that were planted in algorithms are found and said in a line that tells how to mend them."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import flexray.check
from flexray.algorithms.base import EventAlgorithm, RoundAlgorithm
from flexray.algorithms.flex import FlexVFL
from flexray.algorithms.vafl import VAFL
from flexray.core.errors import CheckError, ConfigError
from flexray.core.seeds import generator

LAST = [0]


class ReadsTheClock(FlexVFL):
    def plan(self, now):
        self.began_s = time.monotonic()
        return super().plan(now)


class PlansByTheClock(FlexVFL):
    def plan(self, now):
        return replace(super().plan(now), duration_units=40.0 + time.time() % 1)


class Draws(FlexVFL):
    def plan(self, now):
        return self.make_plan(now, self.same_for_all(random.randint(1, 1000)), 20.0)


class DrawsNumpy(FlexVFL):
    def plan(self, now):
        return self.make_plan(now, self.same_for_all(int(np.random.randint(1000) + 1)), 20.0)


class Counts(FlexVFL):
    rounds = 0

    def plan(self, now):
        self.rounds += 1
        return self.make_plan(now, self.same_for_all(self.rounds), 20.0)


class CountsInItsModule(FlexVFL):
    def plan(self, now):
        LAST[0] += 1
        return self.make_plan(now, self.same_for_all(LAST[0]), 20.0)


class SavesWhatNobodyCanRead(Counts):
    def save(self):
        return random.Random(self.rounds)


class LoadsNothing(Counts):
    def save(self):
        return self.rounds


class SavesAndLoads(LoadsNothing):
    def load(self, saved):
        self.rounds = saved


class Half(FlexVFL):
    def plan(self, now):
        return self.make_plan(now, [t / 2 for t in self.iterations_by_timeout(now)], 20.0)


class NegativeRates(FlexVFL):
    def plan(self, now):
        return replace(super().plan(now), lr=tuple(-lr for lr in self.system.lr))


class NoRate(FlexVFL):
    def plan(self, now):
        return replace(super().plan(now), lr=(0.0,) * len(self.system.lr))


class NoIteration(FlexVFL):
    def plan(self, now):
        return self.make_plan(now, self.same_for_all(0), 20.0)


class NothingForLinks(FlexVFL):
    def plan(self, now):
        return replace(super().plan(now), duration_units=20.0, comm_units=0.0)


class ForFour(FlexVFL):
    def plan(self, now):
        return self.make_plan(now, [5, 10, 15, 20, 20], 20.0)


class NeedsAnother(FlexVFL):
    def plan(self, now):
        first, second = self.iterations_by_timeout(now)[:-1][:2]
        return self.make_plan(now, self.same_for_all(first + second), 20.0)


class WaitsForTheAbsent(FlexVFL):
    def plan(self, now):
        taus = [t for k, t in enumerate(self.iterations_by_timeout(now)[:-1]) if k not in now.absent]
        return self.make_plan(now, self.same_for_all(min(taus)), 20.0)


class Samples(FlexVFL):
    def __init__(self, system):
        super().__init__(system)
        self.draw = np.random.default_rng(1)

    def leaves_out(self, index, utilization):
        return self.draw.choice(len(self.system.names) - 1, 1)


class SamplesByRound(FlexVFL):
    def leaves_out(self, index, utilization):
        return generator(0, "sampled", index).choice(len(self.system.names) - 1, 1)


class LeavesOutTheServer(FlexVFL):
    def leaves_out(self, index, utilization):
        return [len(self.system.names) - 1]


class HoldsALock(FlexVFL):
    def __init__(self, system):
        super().__init__(system)
        self.lock = threading.Lock()


class ShortTurns(VAFL):
    def plan(self, party, now):
        return replace(super().plan(party, now), duration_units=10.0)


class Unfinished(RoundAlgorithm):
    pass


FAULTS: list[tuple[type[RoundAlgorithm | EventAlgorithm], str]] = [
    (ReadsTheClock, "reads no clock: reads the clock (FILE, line 25); now.sim_time is the time"),
    (PlansByTheClock, "reads no clock: reads the clock (FILE, line 31); now.sim_time is the time"),
    (Draws, "plan 1 differs: draws from Python's global random module (FILE, line 36); draw from a generator"),
    (DrawsNumpy, "plan 1 differs: draws from NumPy's global generator; draw from a generator"),
    (Counts, "the plan of round 4 differs: 'self.rounds' changes from round to round; return it from save()"),
    (CountsInItsModule, f"plan 1 differs: '{__name__}.LAST' outlives an object and changes"),
    (SavesWhatNobodyCanRead, "TypeError: Random cannot be saved; expected numbers, text, tensors or lists of them"),
    (LoadsNothing, "the plan of round 4 differs: 'self.rounds' changes from round to round; return it from save()"),
    (Half, "plans for 4 parties: algo failed in round 1: its plan has tau [2.0, 1.0, 1.0, 9.0, 9.5], expected 5 whole"),
    (NegativeRates, "its plan has lr [-0.01, -0.01, -0.01, -0.01, -0.01], expected 5 finite numbers of at least 0"),
    (NoRate, "in plan 1 party1 takes 4 at rate 0; expected a rate above 0, or a tau of 0"),
    (NoIteration, "in plan 1 nobody does; expected a tau of at least 1 for somebody"),
    (NothingForLinks, "plan 1 has comm_units 0 where links take 10; use make_plan"),
    (ForFour, "plans for 1 party: algo failed in round 1: its plan has tau"),
    (NeedsAnother, "plans for 1 party: ValueError: not enough values to unpack (expected 2, got 1) in round 1 (FILE, "),
    (WaitsForTheAbsent, "somebody is frozen, absent or busy: ValueError: min() arg is an empty sequence in round 2"),
    (Samples, "they differ: they depend on what was asked before; draw from flexray.core.seeds.generator(seed, "),
    (LeavesOutTheServer, "algo failed in round 1: it leaves out [4], expected numbers from 0 to 3"),
    (HoldsALock, "TypeError: cannot pickle '_thread.lock' object; expected attributes that can be pickled"),
    (ShortTurns, "lasts 10 units, what is in it 1"),
]


@pytest.mark.parametrize(("algorithm", "said"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(algorithm: type[RoundAlgorithm], said: str) -> None:
    with pytest.raises(CheckError) as caught:
        flexray.check(algorithm)
    assert len(caught.value.failures) == 1, str(caught.value)
    assert said.replace("FILE", __file__) in caught.value.failures[0]


@pytest.mark.parametrize("algorithm", [SavesAndLoads, SamplesByRound])
def test_what_keeps_its_promises_passes(algorithm: type[RoundAlgorithm]) -> None:
    assert flexray.check(algorithm).promises


def test_a_class_that_lacks_a_method_is_refused_as_a_run_refuses_it() -> None:
    with pytest.raises(ConfigError, match=r"^Unfinished._target_: '.*Unfinished' lacks what every .* defines: plan$"):
        flexray.check(Unfinished)
