"""The theory against closed forms, and against Flex-VFL itself on problems whose constants are known exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from flexray.algorithms import theory
from flexray.core.errors import ConfigError
from flexray.optimizers import LocalSGD

F64 = torch.float64
WIDTHS = (2, 3, 4, 2)  # the server's block and those of three parties
MIXED = (LocalSGD(), LocalSGD(momentum=0.9), LocalSGD(), LocalSGD(momentum=0.5))
OPTIMIZERS = {
    "sgd": (LocalSGD(),) * 4,
    "mixed": MIXED,
    "varying rates": (LocalSGD(local_rates=[1.0, 2.0, 3.0]), *MIXED[1:]),
    "proximal, below the paper's w >= 1": (
        LocalSGD(proximal=300.0),
        LocalSGD(momentum=0.9, proximal=300.0),
        *MIXED[2:],
    ),
}


@dataclass(frozen=True)
class Problem:
    """N samples, predictions z_i = sum_k X_ik theta_k, loss mean_i of l(z_i, y_i); many runs (seeds) side by side.

    features: [N, M, V], M outputs per sample, V = sum of WIDTHS; labels: [N, M]; ``logistic`` or half squared error.
    """

    features_nmv: Tensor
    labels_nm: Tensor
    logistic: bool

    def slope(self, z_nms: Tensor, labels_nm1: Tensor) -> Tensor:
        return torch.sigmoid(z_nms) - labels_nm1 if self.logistic else z_nms - labels_nm1

    def loss(self, theta_vs: Tensor) -> Tensor:
        z, y = torch.einsum("nmv,vs->nms", self.features_nmv, theta_vs), self.labels_nm[..., None]
        each = torch.nn.functional.softplus(z) - y * z if self.logistic else (z - y) ** 2 / 2
        return each.sum(dim=1).mean(dim=0)

    def gradient(self, theta_vs: Tensor) -> Tensor:
        z = torch.einsum("nmv,vs->nms", self.features_nmv, theta_vs)
        slope = self.slope(z, self.labels_nm[..., None])
        return torch.einsum("nmv,nms->vs", self.features_nmv, slope) / len(self.labels_nm)


def quadratic() -> Problem:
    """Return least squares with one feature matrix A for all samples, so that sigma_k does not depend on theta."""
    generator = torch.Generator().manual_seed(1)
    matrix = torch.randn(6, sum(WIDTHS), generator=generator, dtype=F64)
    labels = torch.randn(32, 6, generator=generator, dtype=F64)
    return Problem(matrix.expand(32, -1, -1), labels, logistic=False)


def least_squares(problem: Problem) -> Tensor:
    matrix, labels = problem.features_nmv[0], problem.labels_nm.mean(dim=0)
    return torch.linalg.lstsq(matrix, labels[:, None], driver="gelsd").solution


def quadratic_constants(problem: Problem, batch: int) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return L, the tight L_k of each block, sigma_k and F_inf."""
    matrix = problem.features_nmv[0]
    blocks = matrix.split(WIDTHS, dim=1)
    deviation = problem.labels_nm - problem.labels_nm.mean(dim=0)
    best = least_squares(problem)
    variances = [((deviation @ a) ** 2).sum(dim=1).mean().item() / batch for a in blocks]
    norms = [torch.linalg.matrix_norm(a, 2).item() ** 2 for a in (matrix, *blocks)]
    return norms[0], np.array(norms[1:]), np.sqrt(variances), problem.loss(best).item()


def logistic() -> Problem:
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(48, 1, sum(WIDTHS), generator=generator, dtype=F64)
    return Problem(features, (torch.rand(48, 1, generator=generator) < 0.5).to(F64), logistic=True)


def logistic_constants(problem: Problem, batch: int) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return L = max |x_i|^2 / 4, L_k = max |x_ik|^2 / 4, a bound of sigma_k (slopes are below 1) and of F."""
    squares = [(x**2).sum(dim=(1, 2)) for x in problem.features_nmv.split(WIDTHS, dim=2)]
    block = np.array([s.max().item() / 4 for s in squares])
    return sum(squares).max().item() / 4, block, np.sqrt([s.mean().item() / batch for s in squares]), 0.0


def flex_vfl(
    problem: Problem,
    optimizers: Sequence[LocalSGD],
    eta: np.ndarray,
    tau: np.ndarray,
    batch: int | None,
    seeds: int = 1,
    start_v1: Tensor | None = None,
) -> tuple[np.ndarray, float]:
    """Run Algorithm 1 and return E |grad_k F(Theta^r)|^2, [R, K+1], and F(Theta^0). ``batch`` None: the whole data."""
    generator = torch.Generator().manual_seed(3)
    start_v1 = torch.full((sum(WIDTHS), 1), 0.7, dtype=F64) if start_v1 is None else start_v1
    theta = start_v1.repeat(1, seeds)
    count, norms, start = len(problem.labels_nm), np.zeros_like(eta), problem.loss(theta)[0].item()
    for r in range(len(eta)):
        gradient = problem.gradient(theta).split(WIDTHS)
        norms[r] = [(g**2).sum(dim=0).mean().item() for g in gradient]
        ids = torch.randint(count, (batch, seeds), generator=generator) if batch else torch.arange(count)[:, None]
        features_k = problem.features_nmv[ids].split(WIDTHS, dim=3)  # each [B, S or 1, M, V_k]
        labels = problem.labels_nm[ids]
        blocks = [block.clone() for block in theta.split(WIDTHS)]
        embeddings = [
            torch.einsum("bsmv,vs->bsm", x.expand(-1, seeds, -1, -1), t)
            for x, t in zip(features_k, blocks, strict=True)
        ]
        for k, (features, block) in enumerate(zip(features_k, blocks, strict=True)):
            others = sum(e for j, e in enumerate(embeddings) if j != k)
            step = optimizers[k].begin([block], lr=float(eta[r, k]))
            for _ in range(int(tau[r, k])):
                own = torch.einsum("bsmv,vs->bsm", features.expand(-1, seeds, -1, -1), block)
                slope = problem.slope(others + own, labels)
                step([torch.einsum("bsmv,bsm->vs", features.expand(-1, seeds, -1, -1), slope) / len(ids)])
        theta = torch.cat(blocks)
    return norms, start


def changing_iterations(rounds: int) -> np.ndarray:
    return np.random.default_rng(4).integers([1, 2, 4, 8], [3, 6, 10, 12], size=(rounds, 4))


def largest_rates(optimizers: Sequence[LocalSGD], tau: np.ndarray, smoothness: float, block: np.ndarray) -> np.ndarray:
    """Return the limit of Theorem 1, or less where a proximal term lowers w_bar as eta grows."""
    max_weight = np.array([[o.max_weight(int(t), 1e-9) for o, t in zip(optimizers, row, strict=True)] for row in tau])
    return theory.max_learning_rate(tau, max_weight, smoothness, block)


def test_max_learning_rate_closed_forms() -> None:
    assert theory.max_learning_rate(1, 1, 1, 1) == 1 / 16
    assert theory.max_learning_rate(4, 2, 0.5, 8) == 1 / 1024  # L_k above L
    assert theory.max_learning_rate(0, 1, 1, 1) == math.inf
    limits = theory.max_learning_rate(np.array([[1, 2], [4, 8]]), [[1, 1], [1, 2]], 2.0, [1.0, 4.0])
    np.testing.assert_array_equal(limits, [[1 / 32, 1 / 128], [1 / 128, 1 / 1024]])


def test_violations_name_round_and_column() -> None:
    tau, limits = [[1, 2], [4, 8]], np.array([[1 / 32, 1 / 128], [1 / 128, 1 / 1024]])
    args = (tau, [[1, 1], [1, 2]], 2.0, [1.0, 4.0])
    assert theory.violations(limits, *args) == []
    assert theory.violations(limits * [[1.001, 1], [1, 1.001]], *args) == [(0, 0), (1, 1)]
    assert theory.violations(limits * 2, [[0, 2], [4, 8]], *args[1:]) == [(0, 1), (1, 0), (1, 1)]  # (0, 0) was absent


def test_limit_itself_is_no_violation_whatever_the_rounding() -> None:
    tau = np.arange(1, 500)[:, None]
    for smoothness in (0.1, 1 / 3, 7.7):
        rates = theory.max_base_rate(1.0, smoothness, smoothness) / tau
        assert theory.violations(rates, tau, 1.0, smoothness, smoothness) == []


def test_record_takes_weights_from_optimizers() -> None:
    optimizers = (LocalSGD(), LocalSGD(momentum=0.5), LocalSGD(proximal=2.0))
    record = theory.RunRecord.of_run(optimizers, [[0.25] * 3] * 2, [[3, 3, 3], [1, 0, 2]])
    np.testing.assert_array_equal(record.weight_sum, [[3, 1.75 + 1.5 + 1, 1 + 0.5 + 0.25], [1, 0, 1.5]])
    np.testing.assert_array_equal(record.max_weight, [[1, 1.75, 1], [1, 1, 1]])
    np.testing.assert_array_equal(record.sigma, [0, 0, 0])
    assert theory.weight_mass(record.eta, record.weight_sum) == 0.25 * (3 + 4.25 + 1.75 + 1 + 0 + 1.5)


def test_bound_and_left_side_closed_form() -> None:
    record = theory.RunRecord(
        np.array([[0.5, 0.25]]),
        np.array([[2, 4]]),
        np.array([[3.0, 2.0]]),
        np.array([[2.0, 1.0]]),
        np.array([1.0, 3.0]),
    )
    bound = theory.bound(record, smoothness=8.0, loss_gap=5.0)
    assert bound.rate_term == 4 * 5 / 2  # S = 0.5 * 3 + 0.25 * 2
    assert bound.noise_term == 4 * 8 / 2 * (0.25 * 3 * 2 * 2 * 1 + 0.0625 * 2 * 1 * 4 * 9)
    assert bound.total == bound.rate_term + bound.noise_term
    assert theory.left_side(record.eta, record.weight_sum, [[10.0, 20.0]]) == (1.5 * 10 + 0.5 * 20) / 2


def test_corollary_1_is_theorem_1_with_equal_entries() -> None:
    record = theory.RunRecord.of_run([LocalSGD()] * 4, np.full((10, 4), 0.125), np.full((10, 4), 5), sigma=1.5)
    general = theory.bound(record, smoothness=2.0, loss_gap=6.0)
    uniform = theory.uniform_bound(0.125, 5, 10, 4, smoothness=2.0, sigma=1.5, loss_gap=6.0)
    assert uniform.rate_term == pytest.approx(general.rate_term, rel=1e-12) == 4 * 6 / (10 * 0.125 * 5 * 4)
    assert uniform.noise_term == pytest.approx(general.noise_term, rel=1e-12) == 4 * 2 * 0.125 * 5 * 2.25
    assert theory.uniform_max_rate(5, 2.0, [1.0, 4.0, 3.0]) == 1 / (16 * 5 * 4)


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("optimizers", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_theorem_1_on_a_quadratic(optimizers: Sequence[LocalSGD], batch: int | None) -> None:
    problem, tau = quadratic(), changing_iterations(60)
    smoothness, block, sigma, lowest = quadratic_constants(problem, batch or 1)
    eta = largest_rates(optimizers, tau, smoothness, block)
    record = theory.RunRecord.of_run(optimizers, eta, tau, sigma if batch else 0.0)
    assert theory.violations(record.eta, record.tau, record.max_weight, smoothness, block) == []
    norms, start = flex_vfl(problem, optimizers, eta, tau, batch, seeds=100 if batch else 1)
    left = theory.left_side(eta, record.weight_sum, norms)
    bound = theory.bound(record, smoothness, start - lowest)
    assert left <= bound.total
    assert (bound.noise_term > 0) == (batch is not None)
    if batch is None:
        assert left >= bound.total / 8  # the bound is not a vacuous one


@pytest.mark.parametrize("optimizers", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_noise_term_alone_covers_a_run_that_starts_at_the_minimum(optimizers: Sequence[LocalSGD]) -> None:
    problem, tau = quadratic(), changing_iterations(100)
    smoothness, block, sigma, lowest = quadratic_constants(problem, batch=4)
    eta = largest_rates(optimizers, tau, smoothness, block)
    record = theory.RunRecord.of_run(optimizers, eta, tau, sigma)
    norms, start = flex_vfl(problem, optimizers, eta, tau, batch=4, seeds=200, start_v1=least_squares(problem))
    assert start == pytest.approx(lowest, rel=1e-12)
    noise = theory.bound(record, smoothness, loss_gap=0.0).noise_term
    assert noise / 20 <= theory.left_side(eta, record.weight_sum, norms) <= noise


@pytest.mark.parametrize("batch", [None, 4])
def test_theorem_1_on_logistic_regression(batch: int | None) -> None:
    problem, tau = logistic(), changing_iterations(60)
    smoothness, block, sigma, lowest = logistic_constants(problem, batch or 1)
    eta = largest_rates(MIXED, tau, smoothness, block)
    record = theory.RunRecord.of_run(MIXED, eta, tau, sigma if batch else 0.0)
    norms, start = flex_vfl(problem, MIXED, eta, tau, batch, seeds=100 if batch else 1)
    assert theory.left_side(eta, record.weight_sum, norms) <= theory.bound(record, smoothness, start - lowest).total


def test_bound_breaks_far_beyond_the_constraint() -> None:
    problem, tau = quadratic(), changing_iterations(30)
    smoothness, block, _, lowest = quadratic_constants(problem, 1)
    eta = 64 * largest_rates(MIXED, tau, smoothness, block)
    record = theory.RunRecord.of_run(MIXED, eta, tau)
    assert len(theory.violations(eta, tau, record.max_weight, smoothness, block)) == eta.size
    norms, start = flex_vfl(problem, MIXED, eta, tau, batch=None)
    assert theory.left_side(eta, record.weight_sum, norms) > theory.bound(record, smoothness, start - lowest).total


def test_sigma_of_the_quadratic_is_exact() -> None:
    problem = quadratic()
    _, _, sigma, _ = quadratic_constants(problem, batch=1)
    theta = torch.full((sum(WIDTHS), 1), 0.3, dtype=F64)
    single = [Problem(problem.features_nmv[i : i + 1], problem.labels_nm[i : i + 1], False) for i in range(32)]
    noise = torch.stack([p.gradient(theta) - problem.gradient(theta) for p in single])
    np.testing.assert_allclose([(n**2).sum(dim=(1, 2)).mean() for n in noise.split(WIDTHS, dim=1)], sigma**2)


def test_corollary_1_holds_for_the_mean_over_participants_and_not_as_printed() -> None:
    """F = |theta|^2 / 2 in n scalar blocks: by the end |grad F|^2 summed over rounds is F(0) / (eta tau), about."""
    n, tau, rounds = 40, 5, 400
    eta, theta = theory.uniform_max_rate(tau, 1.0, 1.0), torch.ones(n, dtype=F64)
    squares = []
    for _ in range(rounds):
        squares.append((theta**2).sum().item())
        step = LocalSGD().begin([theta], lr=eta)
        for _ in range(tau):
            step([theta.clone()])
    bound = theory.uniform_bound(eta, tau, rounds, n, smoothness=1.0, sigma=0.0, loss_gap=n / 2).total
    assert np.mean(squares) / n <= bound < np.mean(squares)


def test_recommended_rate_and_when_it_meets_the_constraint() -> None:
    assert theory.recommended_rate(4, 25) == 0.1
    assert theory.recommended_rate([[1, 4], [2, 3]], 25) == 0.1
    rounds = 256 * 5 * 3**2
    for count, broken in ((rounds, False), (rounds - 1, True)):
        rate = theory.recommended_rate(5, count)
        assert bool(theory.violations([[rate]], 5, 1.0, 3.0, 2.0)) is broken


@pytest.mark.parametrize(
    ("power", "expected"),
    [(1.0, (True, True)), (0.75, (True, True)), (0.5, (True, False)), (0.0, (True, False)), (1.01, (False, True))],
)
def test_decay_conditions(power: float, expected: tuple[bool, bool]) -> None:
    assert theory.decay_conditions(power) == expected


def test_partial_sums_of_the_harmonic_rates() -> None:
    eta = 1 / np.arange(1.0, 100_001.0)
    sums, squares = theory.partial_sums(np.stack([eta, 2 * eta], axis=1))
    assert sums.shape == squares.shape == (100_000, 2)
    np.testing.assert_allclose(sums[-1], np.array([1, 2]) * (math.log(100_000) + np.euler_gamma), rtol=1e-6)
    np.testing.assert_allclose(squares[-1], np.array([1, 4]) * math.pi**2 / 6, rtol=1e-5)


def test_corollary_2_bound_falls_with_decaying_rates() -> None:
    totals = []
    for rounds in (100, 1_000, 10_000):
        eta = np.repeat(1 / 48 / (1.0 + np.arange(rounds))[:, None] ** 0.75, 2, axis=1)
        full = np.full((rounds, 2), 3.0)
        record = theory.RunRecord(eta, full, full, np.ones((rounds, 2)), np.array([1.0, 2.0]))
        assert theory.violations(eta, full, 1.0, 1.0, 1.0) == []
        totals.append(theory.bound(record, smoothness=1.0, loss_gap=1.0).total)
    assert totals[0] > 1.5 * totals[1] > 1.5**2 * totals[2]


def test_rate_of_change_is_the_smallest_ratio_at_most_one() -> None:
    tau = np.array([[4, 8, 5], [8, 4, 5], [2, 2, 5]])
    np.testing.assert_array_equal(theory.rate_of_change(tau, 1.0), [0.5, 1.0, 1.0])
    np.testing.assert_array_equal(theory.rate_of_change(tau[:2], [[1, 1, 1], [2, 1, 4]]), [0.25, 1.0, 0.25])
    np.testing.assert_array_equal(theory.rate_of_change(tau[:1], 1.0), [1.0, 1.0, 1.0])


def test_base_rate_keeps_adaptive_rates_within_the_constraint() -> None:
    """Algorithm 2: the rate of a round comes from the round before; row 0 is the round the first rate comes from."""
    tau = changing_iterations(50)
    max_weight = np.array([[o.max_weight(int(t), 0.1) for o, t in zip(MIXED, row, strict=True)] for row in tau])
    smoothness, block, load = 3.0, np.array([1.0, 2.0, 5.0, 3.0]), tau * max_weight

    def broken(alpha: np.ndarray, factor: float = 1.0) -> list[tuple[int, int]]:
        base = factor * theory.max_base_rate(alpha, smoothness, block)
        return theory.violations(base / load[:-1], tau[1:], max_weight[1:], smoothness, block)

    alpha, ratios = theory.rate_of_change(tau, max_weight), load[:-1] / load[1:]
    np.testing.assert_array_equal(theory.max_base_rate(1.0, smoothness, block), 1 / (16 * np.array([3.0, 3, 5, 3])))
    assert broken(alpha) == []
    assert {k for _, k in broken(alpha, 1.01)} == {0, 1, 2, 3}  # and no larger A_k would do for anyone
    assert all(ratios[r, k] < 1.01 * alpha[k] for r, k in broken(alpha, 1.01))
    assert broken(ratios.max(axis=0)) != []  # the paper's alpha, an upper bound, lets rates through that are too large


def leaf(*shape: int, value: float | None = None) -> Tensor:
    data = torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(5)) if value is None else None
    return (data if data is not None else torch.full(shape, value, dtype=F64)).requires_grad_()


def test_estimated_smoothness_of_a_quadratic_is_its_largest_eigenvalue() -> None:
    problem = quadratic()
    blocks = [leaf(w, 1) for w in WIDTHS]
    matrix = problem.features_nmv[0]
    smoothness, block, _, _ = quadratic_constants(problem, 1)
    estimate = theory.estimate_smoothness(lambda: problem.loss(torch.cat(blocks)), blocks)
    assert 0.99 * smoothness <= estimate <= smoothness * (1 + 1e-12)
    assert smoothness == pytest.approx(torch.linalg.eigvalsh(matrix.T @ matrix)[-1].item())
    for k, own in enumerate(blocks):
        own_estimate = theory.estimate_smoothness(lambda: problem.loss(torch.cat(blocks)), [own], iterations=100)
        assert own_estimate == pytest.approx(block[k], rel=0.01)


def test_estimated_smoothness_stays_below_the_logistic_constant() -> None:
    problem, theta = logistic(), leaf(sum(WIDTHS), 1, value=0.0)
    smoothness, _, _, _ = logistic_constants(problem, 1)
    features = problem.features_nmv[:, 0]
    exact = torch.linalg.eigvalsh(features.T @ features / 4 / len(features))[-1].item()  # the Hessian at theta = 0
    estimate = theory.estimate_smoothness(lambda: problem.loss(theta), [theta], iterations=100)
    assert estimate == pytest.approx(exact, rel=0.01)
    assert estimate < smoothness


def test_estimated_smoothness_takes_the_size_of_negative_curvature() -> None:
    first, second = leaf(3), leaf(2)
    assert theory.estimate_smoothness(lambda: (first**2).sum() - 3 * (second**2).sum(), [first, second]) == (
        pytest.approx(6.0, rel=1e-6)
    )
    assert first.grad is None
    assert torch.equal(first, leaf(3))


def test_estimated_smoothness_is_zero_without_curvature_and_seeded_otherwise() -> None:
    flat, curved = leaf(3), leaf(4)
    assert theory.estimate_smoothness(lambda: flat.sum(), [flat]) == 0.0
    weights = torch.arange(1.0, 5.0, dtype=F64)
    runs = [
        theory.estimate_smoothness(
            lambda: flat.sum() + (weights * curved**2).sum(), [flat, curved], iterations=2, seed=s
        )
        for s in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.max_learning_rate(-1, 1, 1, 1), "tau: expected finite numbers at least 0, got -1"),
        (lambda: theory.max_learning_rate(1, 1, 0, 1), "^smoothness: expected finite numbers above 0, got 0"),
        (lambda: theory.max_learning_rate(1, 1, "steep", 1), "^smoothness: expected numbers, got 'steep'"),
        (
            lambda: theory.max_learning_rate([1, 2], [1, 2, 3], 1, 1),
            r"shapes do not fit: tau \(2,\), max_weight \(3,\)",
        ),
        (lambda: theory.violations([0.1], 1, 1, 1, 1), r"eta: expected one row a round .* shape \(1,\)"),
        (lambda: theory.violations([[0.1]], [[1, 2]], 1, 1, [1, 1, 1]), "shapes do not fit"),
        (lambda: theory.violations([[0.1, 0.1]], [[1, 2, 3]], 1, 1, 1), r"eta \(1, 2\), limits \(1, 3\)"),
        (lambda: theory.RunRecord.of_run([LocalSGD()], [[0.1]], [[1.5]]), "tau: expected whole numbers, got 1.5"),
        (lambda: theory.RunRecord.of_run([LocalSGD()], [[0.1]], [[1]], [1, 2]), r"sigma: expected shape \(1,\)"),
        (lambda: theory.RunRecord.of_run([LocalSGD()], [[0.1, 0.1]], [[1, 1]]), r"eta: expected shape \(1, 1\)"),
        (lambda: theory.weight_mass([[0.1]], [[0.0]]), "weight_sum: expected at least one step"),
        (lambda: theory.left_side([[0.1]], [[1.0, 1.0]], [[1.0]]), r"weight_sum: expected shape \(1, 1\)"),
        (lambda: theory.left_side([[0.1]], [[1.0]], [[math.nan]]), "squared_gradient_norms: .* got nan"),
        (lambda: theory.uniform_bound(0.1, 1, 0, 2, 1, 1, 1), "rounds: expected finite numbers above 0, got 0"),
        (lambda: theory.uniform_bound(0.1, 1, 5, 2, 1, 1, -2), "loss_gap: expected finite numbers at least 0, got -2"),
        (lambda: theory.recommended_rate(0, 5), "tau: expected"),
        (lambda: theory.decay_conditions(math.inf), "power: expected a finite number, got inf"),
        (lambda: theory.rate_of_change([[1, 0]], 1), "tau: expected finite numbers above 0, got 0"),
        (lambda: theory.rate_of_change([1, 2], 1), "tau: expected one row a round"),
        (lambda: theory.max_base_rate(0, 1, 1), "alpha: expected"),
        (lambda: theory.estimate_smoothness(lambda: torch.ones(()), []), "params: expected at least one tensor"),
        (lambda: theory.estimate_smoothness(lambda: torch.ones(()), [torch.ones(1)]), "requires_grad=True"),
        (lambda: theory.estimate_smoothness(lambda: torch.ones(()), [leaf(1)]), "computed from params"),
        (lambda: theory.estimate_smoothness(lambda: leaf(2) * 2, [leaf(2)]), "loss_fn: expected one finite number"),
        (lambda: theory.estimate_smoothness(lambda: leaf(1).sum(), [leaf(1)], 0), "iterations: expected at least 1"),
    ],
)
def test_mistakes_are_named(call, message) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
