"""LESS-VFL, feature selection with few messages (Castiglia, Zhou, Wang, Kadhe, Baracaldo, Patterson, 2023).

A group lasso drops whole columns w_j of the first layer W of a model, each of which belongs to one input. One step of
proximal SGD at rate eta and penalty lambda is a step down the loss, and then

    w_j <- max(0, 1 - eta lambda / |w_j|) w_j       for all j

The rounds, each on one batch, with Q steps:

    ``pretrain_rounds``     all train together: FedBCD, with Q = 1 split learning
    one                     every party sends its embeddings h_k of all training samples
    ``component_rounds``    the server alone takes proximal steps down the loss of these embeddings;
                            components of embeddings with w_j = 0 are dropped, and the parties learn which are left
    ``feature_rounds``      every party alone takes proximal steps down the mean square of what has changed since in
                            its components that are left; features with w_j = 0 are dropped
    from then on            all train together, without what was dropped, which is neither used nor sent

A round lasts until the slowest has taken its steps; links are waited for in the rounds of all, and for the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from flexray.algorithms.base import Moment, Plan, System
from flexray.algorithms.phases import Phase
from flexray.algorithms.sync import SyncVFL
from flexray.core.checks import positive, whole


class LessVFL(SyncVFL):
    """Short training, embeddings sent once, components and then features dropped, and training of what is left.

    Args:
        system: The participants.
        local_iterations: Q.
        pretrain_rounds: Rounds before anything is dropped.
        component_rounds: Rounds in which the server drops components.
        component_lr: The server's rate in these.
        component_penalty: lambda of the server.
        feature_rounds: Rounds in which parties drop features.
        feature_lr: Their rate in these.
        feature_penalty: lambda of the parties.
    """

    private_labels = True
    selects = True

    def __init__(
        self,
        system: System,
        local_iterations: int = 1,
        pretrain_rounds: int = 40,
        component_rounds: int = 100,
        component_lr: float = 0.5,
        component_penalty: float = 0.02,
        feature_rounds: int = 100,
        feature_lr: float = 0.5,
        feature_penalty: float = 0.03,
    ) -> None:
        super().__init__(system, local_iterations)
        self._begins = whole("algo.pretrain_rounds", pretrain_rounds, low=0)
        self._thins = self._begins + 1 + whole("algo.component_rounds", component_rounds, low=1)
        self._ends = self._thins + whole("algo.feature_rounds", feature_rounds, low=1)
        self._rates = positive("algo.component_lr", component_lr), positive("algo.feature_lr", feature_lr)
        self._penalties = (
            positive("algo.component_penalty", component_penalty),
            positive("algo.feature_penalty", feature_penalty),
        )

    @override
    def phase(self, index: int) -> Phase:
        if index < self._begins or index >= self._ends:
            return "joint"
        if index == self._begins:
            return "handover"
        return "components" if index < self._thins else "features"

    @override
    def penalty(self, index: int) -> float:
        return self._penalties[self.phase(index) == "features"]

    @override
    def leaves_out(self, index: int, utilization: Sequence[float]) -> Sequence[int]:
        return range(len(self.system.names) - 1) if self.phase(index) == "components" else ()

    @override
    def plan(self, now: Moment) -> Plan:
        phase, many = self.phase(now.round), len(self.system.names)
        if phase == "joint":
            return self.wait_for_all(now, self.local_iterations)
        if phase == "handover":
            plan = self.wait_for_parties(now, 0, sends=True)
            return replace(plan, duration_units=plan.comm_units)
        if phase == "components":
            return replace(self.wait_for_all(now, self.local_iterations), lr=(self._rates[0],) * many)
        return self.wait_for_parties(now, self.local_iterations, sends=False, lr=(self._rates[1],) * many)
