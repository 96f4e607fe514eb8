"""What the paper proves about Flex-VFL, as functions of plain arrays (Sections V and VI; equations by number).

Legend: R rounds, K+1 participants (K parties and the server) in any one order of columns. ``eta`` learning rates (their
natural unit is 1 / L), ``tau`` local iterations, ``weight_sum`` W = sum_t w_t and ``max_weight`` w_bar = max_t w_t of
the local optimizer, all [R, K+1]; ``smoothness`` L of the whole gradient, ``party_smoothness`` L_k [K+1] of each block;
``sigma`` sigma_k [K+1], whose square bounds the variance of a mini-batch gradient. Numbers out of range and shapes that
do not fit raise a :class:`ConfigError` that names the argument, in every function.

Where this module departs from the print, and why:

* **A_k.** The paper calls alpha an upper bound of tau^r w_bar^r / (tau^{r+1} w_bar^{r+1}) and asks for
  A_k <= alpha / (16 max(L, L_k)). The constraint asks for that with the ratio itself, in every round, so alpha must be
  a lower bound: here it is the smallest ratio.
* **Weights.** The paper assumes w_t >= 1, as one step of its proof takes tau <= W. Proximal weights are below 1, hence
  outside its assumption. The theorem's statement is indifferent to (w, eta) -> (c w, eta / c), though, and the estimate
  |g_t - g_0| <= ((1 + eta L_k w_bar)^t - 1) |g_0| yields it for any w_t >= 0 whose moves obey
  |theta_t - theta_0| <= eta w_bar sum_{s < t} |g_s|. That is all of ``LocalSGD`` while eta mu s_t <= 1.
* **Corollary 1** is Theorem 1 with equal entries, so it bounds the mean of |grad_k F|^2 over the K+1 participants. The
  print has their sum, |grad F|^2, on the left: K+1 times too strong.
* **Corollary 2** needs tau and w_bar to stay bounded over the rounds, which a timeout ensures.
* **L_k.** As the paper defines it, L_k is never above a tight L. The proof moves one block at a time, so that block's
  own constant, the largest eigenvalue of its part of the Hessian, is enough.
* **Batches** are drawn afresh every round; cut from one permutation an epoch, they meet Assumption 2 only roughly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from flexray.core.errors import ConfigError
from flexray.optimizers import LocalOptimizer

Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # relative: a rate set to the limit may differ from it in the last digits


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What Theorem 1 needs to know of a run, as float64 arrays.

    Args:
        eta: Learning rates [R, K+1], above 0.
        tau: Local iterations [R, K+1]; 0 for a participant that missed the round.
        weight_sum: W [R, K+1].
        max_weight: w_bar [R, K+1], above 0.
        sigma: sigma_k [K+1].
    """

    eta: Floats
    tau: Floats
    weight_sum: Floats
    max_weight: Floats
    sigma: Floats

    def __post_init__(self) -> None:
        for name in ("eta", "tau", "weight_sum", "max_weight", "sigma"):
            array = _checked(name, getattr(self, name), zero=name in ("tau", "weight_sum", "sigma"))
            object.__setattr__(self, name, array)
        _check_table("eta", self.eta)
        _check_shape(self.eta.shape, tau=self.tau, weight_sum=self.weight_sum, max_weight=self.max_weight)
        _check_shape(self.eta.shape[1:], sigma=self.sigma)

    @classmethod
    def of_run(
        cls, optimizers: Sequence[LocalOptimizer], eta: ArrayLike, tau: ArrayLike, sigma: ArrayLike = 0.0
    ) -> RunRecord:
        """Fill in the weights from the local optimizers, one per column.

        ``eta`` and ``tau`` (whole numbers) are [R, K+1]; ``sigma`` is [K+1] or one number, 0 for full batches.
        """
        rates, iterations = _checked("eta", eta), _checked("tau", tau, zero=True)
        _check_table("eta", rates)
        _check_shape((rates.shape[0], len(optimizers)), eta=rates, tau=iterations)
        if (iterations % 1).any():
            raise ConfigError(f"tau: expected whole numbers, got {iterations[iterations % 1 > 0][0]:g}")
        sums, maxima = np.zeros_like(rates), np.ones_like(rates)
        for (r, k), lr in np.ndenumerate(rates):
            sums[r, k] = sum(optimizers[k].weights(int(iterations[r, k]), float(lr)))
            maxima[r, k] = optimizers[k].max_weight(int(iterations[r, k]), float(lr))
        sigmas = _checked("sigma", sigma, zero=True)
        return cls(rates, iterations, sums, maxima, np.full(len(optimizers), sigmas) if sigmas.ndim == 0 else sigmas)


@dataclass(frozen=True)
class Bound:
    """A right-hand side: ``rate_term`` vanishes as rounds go on, ``noise_term`` comes from the mini-batches."""

    rate_term: float
    noise_term: float

    @property
    def total(self) -> float:
        """Both terms together."""
        return self.rate_term + self.noise_term


def max_learning_rate(
    tau: ArrayLike, max_weight: ArrayLike, smoothness: ArrayLike, party_smoothness: ArrayLike
) -> Floats:
    """Return the largest rate that Theorem 1 allows (14): 1 / (16 tau max(L, L_k) w_bar).

    The arguments broadcast, for example [R, K+1], [R, K+1], one number and [K+1]. Without iterations the limit is inf.
    """
    steps, weight = _checked("tau", tau, zero=True), _checked("max_weight", max_weight)
    whole, block = _checked("smoothness", smoothness), _checked("party_smoothness", party_smoothness)
    _check_broadcast(tau=steps, max_weight=weight, smoothness=whole, party_smoothness=block)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (16.0 * steps * np.maximum(whole, block) * weight))


def violations(
    eta: ArrayLike, tau: ArrayLike, max_weight: ArrayLike, smoothness: float, party_smoothness: ArrayLike
) -> list[tuple[int, int]]:
    """Return the (round, column) pairs whose rate breaks the constraint of Theorem 1, in order of rounds.

    ``eta`` is [R, K+1]; the other arguments are as in :func:`max_learning_rate` and broadcast to that shape.
    """
    rates = _checked("eta", eta)
    _check_table("eta", rates)
    limits = max_learning_rate(tau, max_weight, smoothness, party_smoothness)
    _check_broadcast(eta=rates, limits=limits)
    return [(int(r), int(k)) for r, k in np.argwhere(rates > limits * (1 + _ROUNDING))]


def weight_mass(eta: ArrayLike, weight_sum: ArrayLike) -> float:
    """Return S of Theorem 1: eta W, arrays [R, K+1], summed over rounds and participants; above 0."""
    rates, sums = _checked("eta", eta), _checked("weight_sum", weight_sum, zero=True)
    _check_shape(rates.shape, weight_sum=sums)
    if not sums.any():
        raise ConfigError("weight_sum: expected at least one step in the run, got none")
    return float(np.sum(rates * sums))


def left_side(eta: ArrayLike, weight_sum: ArrayLike, squared_gradient_norms: ArrayLike) -> float:
    """Return the left side of Theorem 1 (15): the mean of |grad_k F|^2, weighted by eta W.

    All are [R, K+1]. ``squared_gradient_norms`` holds |grad_k F(Theta^r)|^2 on the whole data at the start of each
    round; the theorem speaks of its expectation, so average it over runs with different seeds.
    """
    mass, norms = weight_mass(eta, weight_sum), _checked("squared_gradient_norms", squared_gradient_norms, zero=True)
    _check_shape(np.shape(eta), squared_gradient_norms=norms)
    return float(np.sum(np.multiply(eta, weight_sum) * norms)) / mass


def bound(record: RunRecord, smoothness: float, loss_gap: float) -> Bound:
    """Return the right side of Theorem 1 (15); the module's notes discuss its assumptions.

    The rate term is 4 (F(Theta^0) - F_inf) / S; the noise term is 4 L / S times the sum of eta^2 W w_bar tau sigma_k^2.
    Both are computed even where a rate is too large for the theorem; :func:`violations` lists them.

    ``loss_gap`` is F(Theta^0) - F_inf: the loss of the start, on the whole data, less any lower bound of the loss.
    """
    mass = weight_mass(record.eta, record.weight_sum)
    noise = np.sum(record.eta**2 * record.weight_sum * record.max_weight * record.tau * record.sigma**2)
    gap, steep = _checked("loss_gap", loss_gap, zero=True), _checked("smoothness", smoothness)
    return Bound(rate_term=float(4.0 * gap / mass), noise_term=float(4.0 * steep * noise / mass))


def uniform_max_rate(tau: float, smoothness: float, party_smoothness: ArrayLike) -> float:
    """Return the constraint of Corollary 1: 1 / (16 tau max(L, L_k)), the least over the participants."""
    return float(np.min(max_learning_rate(tau, 1.0, smoothness, party_smoothness)))


def uniform_bound(
    eta: float, tau: float, rounds: int, participants: int, smoothness: float, sigma: float, loss_gap: float
) -> Bound:
    """Return the right side of Corollary 1 (17): all K+1 take ``tau`` steps of plain SGD at one rate.

    It bounds the mean of |grad_k F|^2 over rounds **and** participants; ``participants`` times it bounds the mean of
    |grad F|^2 over rounds, which the print puts on the left without that factor. The terms are
    4 (F(Theta^0) - F_inf) / (R eta tau (K+1)) and 4 L eta tau sigma^2.
    """
    named = {"eta": eta, "tau": tau, "rounds": rounds, "participants": participants, "smoothness": smoothness}
    for name, number in named.items():
        _checked(name, number)
    gap, variance = _checked("loss_gap", loss_gap, zero=True), _checked("sigma", sigma, zero=True) ** 2
    return Bound(float(4.0 * gap / (rounds * eta * tau * participants)), float(4.0 * smoothness * eta * tau * variance))


def recommended_rate(tau: ArrayLike, rounds: int) -> float:
    """Return 1 / sqrt(R max tau), the rate that the paper puts into Theorem 1 and Corollary 1.

    It meets the constraint from R = 256 max(tau) (max(L, L_k) w_bar)^2 on. The rate term then falls as 1 / sqrt(tau R),
    as the paper says, but the noise term as sqrt(tau / R), so more local iterations do not lower the noise.
    """
    return float(1.0 / np.sqrt(np.max(_checked("tau", tau)) * _checked("rounds", rounds)))


def decay_conditions(power: float) -> tuple[bool, bool]:
    """Return which conditions of Corollary 2 the rates c / (r + 1)^power, c > 0, meet.

    The first is that their sum diverges (power <= 1), the second that the sum of squares converges (power > 1/2).
    """
    if not np.isfinite(power):
        raise ConfigError(f"power: expected a finite number, got {power!r}")
    return bool(power <= 1), bool(power > 0.5)


def partial_sums(eta: ArrayLike) -> tuple[Floats, Floats]:
    """Return the sums of eta and of eta^2 up to each round (first axis), to see where a run heads in Corollary 2."""
    rates = _checked("eta", eta)
    return np.cumsum(rates, axis=0), np.cumsum(rates**2, axis=0)


def rate_of_change(tau: ArrayLike, max_weight: ArrayLike) -> Floats:
    """Return alpha [K+1], as seen in a run: the smallest tau^r w_bar^r / (tau^{r+1} w_bar^{r+1}), at most 1.

    The paper names the largest ratio; the module's notes say why that does not do. The cap at 1 covers a first rate
    that comes from the first round's own tau (known speeds). Where it comes from a dummy round, row 0 is the dummy.
    ``tau`` is [R, K+1], at least 1, in consecutive rounds; ``max_weight`` is w_bar [R, K+1], or one number.
    """
    iterations, weight = _checked("tau", tau), _checked("max_weight", max_weight)
    _check_table("tau", iterations)
    _check_broadcast(tau=iterations, max_weight=weight)
    load = iterations * weight
    return np.asarray(np.min(load[:-1] / load[1:], axis=0, initial=1.0))


def max_base_rate(alpha: ArrayLike, smoothness: ArrayLike, party_smoothness: ArrayLike) -> Floats:
    """Return the largest A_k of Adaptive Flex-VFL (20): alpha / (16 max(L, L_k)). The arguments broadcast.

    With alpha of :func:`rate_of_change`, each rate A_k / (tau^r w_bar^r) meets Theorem 1's constraint in round r + 1.
    """
    return np.asarray(_checked("alpha", alpha) * max_learning_rate(1.0, 1.0, smoothness, party_smoothness))


def estimate_smoothness(
    loss_fn: Callable[[], Tensor], params: Sequence[Tensor], iterations: int = 20, seed: int = 0
) -> float:
    """Estimate L: the largest |eigenvalue| of the loss's Hessian at the present parameters, by power iteration.

    An estimate and not a bound: it nears that eigenvalue from below, and elsewhere the Hessian may be steeper. Given
    the parameters of one participant it estimates L_k of that block. No parameter and no ``.grad`` is changed.

    Args:
        loss_fn: Computes the scalar loss from ``params``, by operations that can be differentiated twice; called once.
        params: Tensors of any shapes that require gradients.
        iterations: Hessian-vector products to spend, at least 1.
        seed: Seed of the random start.
    """
    if iterations < 1:
        raise ConfigError(f"iterations: expected at least 1, got {iterations}")
    if not params or not all(p.requires_grad for p in params):
        raise ConfigError("params: expected at least one tensor, all with requires_grad=True")
    loss = loss_fn()
    if loss.numel() != 1 or not (loss.requires_grad and bool(torch.isfinite(loss))):
        raise ConfigError(f"loss_fn: expected one finite number computed from params, got {loss.detach()}")
    grads = torch.autograd.grad(loss, params, create_graph=True, materialize_grads=True)
    curved = [i for i, grad in enumerate(grads) if grad.requires_grad]  # the loss is linear in the others
    generator = torch.Generator().manual_seed(seed)
    vector = [torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device) for p in params]
    norm = float(torch.nn.utils.get_total_norm(vector)) if curved else 0.0
    for _ in range(iterations):
        if norm == 0.0:
            break
        unit, steep = [vector[i] / norm for i in curved], [grads[i] for i in curved]
        vector = list(torch.autograd.grad(steep, params, unit, retain_graph=True, materialize_grads=True))
        norm = float(torch.nn.utils.get_total_norm(vector))
    return norm


def _checked(name: str, value: ArrayLike, zero: bool = False) -> Floats:
    """Return ``value`` as float64: all finite, and positive (or zero, where that is allowed)."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: expected numbers, got {value!r}") from error
    bad = ~(np.isfinite(array) & (array >= 0 if zero else array > 0))
    if bad.any():
        raise ConfigError(
            f"{name}: expected finite numbers {'at least' if zero else 'above'} 0, got {array[bad].flat[0]:g}"
        )
    return array


def _check_table(name: str, array: Floats) -> None:
    if array.ndim != 2 or 0 in array.shape:
        raise ConfigError(f"{name}: expected one row a round and one column a participant, got shape {array.shape}")


def _check_broadcast(**arrays: Floats) -> None:
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        raise ConfigError(f"shapes do not fit: {', '.join(f'{n} {a.shape}' for n, a in arrays.items())}") from error


def _check_shape(shape: tuple[int, ...], **arrays: Floats) -> None:
    for name, array in arrays.items():
        if array.shape != shape:
            raise ConfigError(f"{name}: expected shape {shape}, got {array.shape}")
