"""An independent plain-PyTorch loop for each algorithm, from its definition alone; nothing of flexray is used.

Embeddings are always concatenated and sent through the server's whole model. Participants are the parties 0..K-1,
then the server. Times are fractions, so that they are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

Ids = Callable[[int], Tensor]
"""Sample IDs of a batch, given its number."""


@dataclass(frozen=True)
class Rule:
    """A local optimizer: momentum rho, proximal mu, local rates s_t, L2 lambda; and gradient clipping."""

    momentum: float = 0.0
    proximal: float = 0.0
    rates: tuple[float, ...] = ()
    l2: float = 0.0
    clip: float | None = None

    def rate(self, t: int) -> float:
        return self.rates[min(t, len(self.rates) - 1)] if self.rates else 1.0

    def max_weight(self, tau: int, lr: float) -> float:
        """Return w_bar; w_t is found by a round in which g_t alone is 1 and nothing else moves the parameter."""
        weights = []
        for t in range(tau):
            theta, velocity = 0.0, 0.0
            for q in range(tau):
                velocity = self.momentum * velocity + (1.0 if q == t else 0.0)
                theta -= lr * self.rate(q) * (velocity + self.proximal * theta)
            weights.append(-theta / lr)
        return max(weights)


@dataclass
class World:
    """Who takes part; the modules are changed in place."""

    parties: list[nn.Module]
    server: nn.Module
    features: list[Tensor]
    labels: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    rules: list[Rule]

    def predict(self, blocks: Sequence[Tensor]) -> Tensor:
        return self.server(torch.cat(list(blocks), dim=1))

    def models(self) -> list[nn.Module]:
        return [*self.parties, self.server]


@dataclass(frozen=True)
class Pace:
    """Speeds and links: units per iteration at zero utilization, utilization, timeout, t_comm of every party."""

    base: tuple[Fraction, ...]
    utilization: tuple[Fraction, ...]
    timeout: Fraction
    t_comm: tuple[Fraction, ...]

    def units(self) -> list[Fraction]:
        return [b / (1 - c) for b, c in zip(self.base, self.utilization, strict=True)]

    def by_timeout(self) -> list[int]:
        speeds = zip(self.base, self.utilization, strict=True)
        return [max(1, math.floor(self.timeout * (1 - c) / b)) for b, c in speeds]

    def published_start(self) -> list[int]:
        """What the published adaptive rule divides A by at first."""
        return [math.floor(self.timeout * (1 - min(self.utilization)) / b) + 1 for b in self.base]

    def schedule(self, algo: str, away: frozenset[int] = frozenset()) -> tuple[list[int], Fraction]:
        """Return every participant's tau and the duration of a round; who is away is not waited for."""
        here = [k for k in range(len(self.base)) if k not in away]
        tau, slowest = self.by_timeout(), max(self.units()[k] for k in here)
        if algo == "sync_min":
            tau = [min(tau[k] for k in here)] * len(tau)
        elif algo == "sync_max":
            tau = [max(tau[k] for k in here)] * len(tau)
        elif algo == "pbcd":
            tau = [1] * len(tau)
        duration = {"sync_max": tau[0] * slowest, "pbcd": slowest}.get(algo, max(self.timeout, slowest))
        links = [self.t_comm[k] for k in here[:-1]]
        return [t if k in here else 0 for k, t in enumerate(tau)], duration + max(links, default=Fraction(0))


@dataclass(frozen=True)
class Row:
    """What the run's record of a round or an event must say."""

    sim_time: float
    loss: float
    tau: list[int]
    lr: list[float]
    party: int | None = None
    staleness: list[float] | None = None
    waited: float = 0.0
    absent: tuple[int, ...] = ()


def decayed(lr: float, iterations: Fraction, milestones: Sequence[int], factor: float) -> float:
    for milestone in milestones:
        if iterations >= milestone:
            lr *= factor
    return lr


def local_round(model: nn.Module, rule: Rule, lr: float, tau: int, loss: Callable[[], Tensor]) -> None:
    """Take ``tau`` iterations on a fixed batch, with fresh optimizer state."""
    params = list(model.parameters())
    if rule.proximal or rule.rates:
        by_hand(params, rule, lr, tau, loss)
        return
    optimizer = torch.optim.SGD(params, lr=lr, momentum=rule.momentum, weight_decay=rule.l2, foreach=False)
    for _ in range(tau):
        optimizer.zero_grad()
        loss().backward(inputs=params)
        if rule.clip is not None:
            torch.nn.utils.clip_grad_norm_(params, rule.clip)
        optimizer.step()


def by_hand(params: list[nn.Parameter], rule: Rule, lr: float, tau: int, loss: Callable[[], Tensor]) -> None:
    start = [p.detach().clone() for p in params]
    velocity = [torch.zeros_like(p) for p in params]
    for t in range(tau):
        for p in params:
            p.grad = None
        loss().backward(inputs=params)
        if rule.clip is not None:
            torch.nn.utils.clip_grad_norm_(params, rule.clip)
        with torch.no_grad():
            for p, p0, u in zip(params, start, velocity, strict=True):
                u.copy_(rule.momentum * u + p.grad + rule.l2 * p)
                p.copy_(p - lr * rule.rate(t) * (u + rule.proximal * (p - p0)))


@dataclass(frozen=True)
class Rates:
    """Learning rates: eta_k, or A_k of the adaptive rule; decay by milestones."""

    lr: tuple[float, ...]
    adaptive: bool = False
    weighted: bool = True
    milestones: tuple[int, ...] = ()
    factor: float = 0.1

    def first(self, world: World, pace: Pace, tau: Sequence[int]) -> list[float]:
        """Rates of the first round; eta is not known yet, so the proximal pull cannot lessen w_bar."""
        if not self.adaptive:
            return list(self.lr)
        if not self.weighted:
            return [a / n for a, n in zip(self.lr, pace.published_start(), strict=True)]
        rules = [Rule(rule.momentum, 0.0, rule.rates) for rule in world.rules]
        return [a / (t * r.max_weight(t, 1.0)) for a, t, r in zip(self.lr, tau, rules, strict=True)]

    def following(
        self, world: World, pace: Pace, first: Sequence[int], tau: Sequence[int], lr: Sequence[float]
    ) -> list[float]:
        """Rates of the round after one with ``tau`` iterations at ``lr``."""
        if not self.adaptive:
            return list(self.lr)
        if not self.weighted:
            starts = zip(self.lr, pace.published_start(), strict=True)
            return [a / n * t0 / t for (a, n), t0, t in zip(starts, first, tau, strict=True)]
        return [
            a / (t * rule.max_weight(t, eta)) for a, t, rule, eta in zip(self.lr, tau, world.rules, lr, strict=True)
        ]


def loss_of_party(world: World, k: int, sent: list[Tensor], x_k: Tensor, y: Tensor) -> Tensor:
    """Party k's own embedding is new, the others' are those that were sent."""
    return world.loss(world.predict([*sent[:k], world.parties[k](x_k), *sent[k + 1 :]]), y)


def product(model: nn.Module, x_k: Tensor, gradient: Tensor) -> Tensor:
    """Its derivative by the parameters is J^T v, v being the fixed gradient by the embeddings."""
    return (model(x_k) * gradient).sum()


def loss_of_server(world: World, sent: list[Tensor], y: Tensor) -> Tensor:
    return world.loss(world.predict(sent), y)


Away = Callable[[int], frozenset[int]]
"""Who misses a round (0-based)."""


def run_rounds(
    world: World, algo: str, pace: Pace, rates: Rates, ids: Ids, rounds: int, away_in: Away = lambda r: frozenset(),
    labels_at_server: bool = False, labels_at_party: bool = False,
) -> list[Row]:  # fmt: skip
    """Flex-VFL, its adaptive form, Sync-Min, Sync-Max or P-BCD.

    With partial participation, and with labels at the server, or at a party: the server then has a fixed gradient, too.
    """
    rows: list[Row] = []
    all_tau, _ = pace.schedule(algo)
    computed, time = Fraction(0), Fraction(0)
    undecayed = rates.first(world, pace, all_tau)
    with torch.no_grad():
        last = [model(x) for model, x in zip(world.parties, world.features, strict=True)]
    for r in range(rounds):
        away = away_in(r)
        tau, duration = pace.schedule(algo, away)
        time += duration
        lr = [decayed(e, computed / min(pace.base), rates.milestones, rates.factor) for e in undecayed]
        batch = ids(r)
        x, y = [f[batch] for f in world.features], world.labels[batch]
        with torch.no_grad():
            for k, model in enumerate(world.parties):
                if k not in away:
                    last[k][batch] = model(x[k])
            sent = [embeddings[batch] for embeddings in last]
            loss = float(world.loss(world.predict(sent), y))
        if labels_at_server or labels_at_party:
            leaves = [embeddings.clone().requires_grad_() for embeddings in sent]
            prediction = world.predict(leaves)
            top, *gradients = torch.autograd.grad(world.loss(prediction, y), [prediction, *leaves])
        for k, model in enumerate(world.parties):
            if k in away:
                continue
            loss_k = partial(loss_of_party, world, k, sent, x[k], y)
            if labels_at_server or labels_at_party:
                loss_k = partial(product, model, x[k], gradients[k])
            local_round(model, world.rules[k], lr[k], tau[k], loss_k)
        loss_0 = partial(loss_of_server, world, sent, y)
        if labels_at_party:
            loss_0 = partial(product, world.server, torch.cat(sent, dim=1), top)
        local_round(world.server, world.rules[-1], lr[-1], tau[-1], loss_0)
        rows.append(Row(float(time), loss, tau, lr, absent=tuple(sorted(away))))
        computed += duration - max((pace.t_comm[k] for k in range(len(tau) - 1) if k not in away), default=Fraction(0))
        new = rates.following(world, pace, all_tau, [max(1, t) for t in tau], lr)
        undecayed = [old if k in away else eta for k, (old, eta) in enumerate(zip(undecayed, new, strict=True))]
    return rows


def run_vafl(
    world: World, pace: Pace, rates: Rates, ids: Sequence[Ids], events: int, server_is_free: bool = False,
    max_ahead: int | None = None,
) -> list[Row]:  # fmt: skip
    """VAFL. Both gradients are those of the same loss, before either step; messages queue for the server.

    With ``max_ahead`` a party that is further ahead of the slowest does not begin its next turn.
    """
    count, size = len(world.parties), len(world.labels)
    turn_units = [u + t for u, t in zip(pace.units(), pace.t_comm, strict=False)]
    with torch.no_grad():
        stored = [model(x) for model, x in zip(world.parties, world.features, strict=True)]
    arrived = [[0] * size for _ in range(count)]
    turns, begun, idle_from = [0] * count, [Fraction(0)] * count, Fraction(0)
    ended, under_way = [Fraction(0)] * count, set(range(count))
    step_units = Fraction(0) if server_is_free else pace.units()[-1]
    waits = [0.0] * count
    rows: list[Row] = []
    for event in range(events):
        time, k = min((begun[k] + turn_units[k], k) for k in under_way)
        time = ended[k] = idle_from = max(time, idle_from) + step_units
        waited = waits[k]
        batch = ids[k](turns[k])
        party, y = world.parties[k], world.labels[batch]
        own = party(world.features[k][batch])
        stored[k][batch] = own.detach()
        for i in batch.tolist():
            arrived[k][i] = event
        staleness = [sum(event - arrived[j][i] for i in batch.tolist()) / len(batch) for j in range(count)]
        loss = world.loss(world.predict([own if j == k else stored[j][batch] for j in range(count)]), y)
        value = float(loss.detach())
        iterations = max(n * u for n, u in zip(turns, pace.units(), strict=False)) / min(pace.base)
        lr = [decayed(e, iterations, rates.milestones, rates.factor) for e in rates.lr]
        movers = [(party, k), (world.server, count)]
        grads = torch.autograd.grad(loss, [p for model, _ in movers for p in model.parameters()])
        place = 0
        for model, who in movers:
            params = list(model.parameters())
            one_step(params, grads[place : place + len(params)], world.rules[who], lr[who])
            place += len(params)
        turns[k] += 1
        under_way.remove(k)
        for j in set(range(count)) - under_way:
            if max_ahead is None or turns[j] - min(turns) <= max_ahead:
                under_way.add(j)
                begun[j], waits[j] = time, float(time - ended[j])
        tau = [int(j in (k, count)) for j in range(count + 1)]
        rows.append(Row(float(time), value, tau, lr, k, staleness, waited))
    return rows


def one_step(params: Sequence[Tensor], grads: Sequence[Tensor], rule: Rule, lr: float) -> None:
    for p, g in zip(params, grads, strict=True):
        p.grad = g.clone()
    if rule.clip is not None:
        torch.nn.utils.clip_grad_norm_(params, rule.clip)
    with torch.no_grad():
        for p in params:
            p.copy_(p - lr * rule.rate(0) * (p.grad + rule.l2 * p))


class GatedHead(nn.Module):
    """A server model that does not begin with a linear layer, so no part of it can be computed ahead."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(in_features)
        self.gate = nn.Linear(in_features, in_features)
        self.out = nn.Linear(in_features, out_features)

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.out(self.norm(embeddings) * torch.sigmoid(self.gate(embeddings * embeddings)))


class WeightNormHead(nn.Sequential):
    """A server model whose first layer is linear with a weight that is computed from parameters."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(weight_norm(nn.Linear(in_features, out_features)))
