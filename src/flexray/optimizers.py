"""Local optimizers and the weights they put on gradients (paper, Section IV; docs/algorithms.md, Local optimizers).

A local optimizer turns the gradients g_0 .. g_{tau-1} of one round into the move

    theta^tau - theta^0 = -eta * sum_t w_t g_t

The weights w_t enter the theory and the adaptive learning rate. To add an optimizer, subclass
:class:`LocalOptimizer` and name the class in the configuration: ``optimizer._target_=my_package.MyOptimizer``.
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from flexray.core.checks import number, positive, shown, yes_or_no
from flexray.core.errors import ConfigError

Step = Callable[[Sequence[Tensor]], None]
"""Applies one local iteration, given the gradients in the order of the parameters."""


class LocalOptimizer(ABC):
    """One participant's use of the gradients of a round."""

    in_theory: bool = False
    """Whether :meth:`weights` is exact; else the run's log says that w_bar is taken as 1."""

    def __str__(self) -> str:
        return type(self).__name__

    @abstractmethod
    def begin(self, params: Sequence[Tensor], lr: float) -> Step:
        """Start a round with fresh state and return the step function.

        Args:
            params: The participant's parameters theta^0, changed in place by every step.
            lr: The learning rate eta of this round.
        """

    def save(self) -> Any:
        """Return the state that outlasts a round, for checkpoints: None, or numbers, tensors and containers of them."""
        return None

    def load(self, params: Sequence[Tensor], saved: Any) -> None:  # noqa: B027 - most have no such state
        """Restore the state that :meth:`save` returned."""

    def weights(self, tau: int, lr: float) -> tuple[float, ...]:
        """Return w_0 .. w_{tau-1} for ``tau`` local iterations at learning rate ``lr``."""
        return (1.0,) * tau

    def max_weight(self, tau: int, lr: float) -> float:
        """Return w_bar, the largest of the weights (1 for no iterations, and outside the theory)."""
        return max(self.weights(tau, lr), default=1.0) if self.in_theory else 1.0


class LocalSGD(LocalOptimizer):
    """SGD, optionally with local momentum, a proximal term, rates that vary within the round, and L2.

    With d_t = theta_t - theta_0 and g_t including the L2 term, one step is:

        u_t = rho u_{t-1} + g_t                              (u_{-1} = 0 in every round)
        theta_{t+1} = theta_t - eta s_t (u_t + mu d_t)

    Momentum gathers gradients only; the proximal pull acts beside it (as in FedNova), so that with s_t = 1 the
    weights are w_t = (a^n - rho^n) / (a - rho) with a = 1 - eta mu and n = tau - t, which is the paper's momentum
    weight for mu = 0 and its proximal weight for rho = 0.

    Args:
        momentum: rho in [0, 1).
        proximal: mu >= 0.
        local_rates: s_t, one positive number per local iteration; the last one also for all later iterations.
        l2: lambda >= 0; adds lambda * theta to every gradient, after clipping.
    """

    in_theory = True

    def __init__(
        self,
        momentum: float = 0.0,
        proximal: float = 0.0,
        local_rates: Sequence[float] | None = None,
        l2: float = 0.0,
    ) -> None:
        self.momentum = number("optimizer.momentum", momentum, low=0, below=1)
        self.proximal = number("optimizer.proximal", proximal, low=0)
        self.l2 = number("optimizer.l2", l2, low=0)
        if local_rates is not None and (not isinstance(local_rates, list | tuple) or not local_rates):
            raise ConfigError(f"optimizer.local_rates: expected a list of positive numbers, got {shown(local_rates)}")
        self.local_rates = tuple(positive(f"optimizer.local_rates[{i}]", s) for i, s in enumerate(local_rates or ()))

    @override
    def begin(self, params: Sequence[Tensor], lr: float) -> Step:
        params = list(params)
        start = [p.detach().clone() for p in params] if self.proximal else []
        velocity: list[Tensor] = []
        rates = chain(self.local_rates or (1.0,), repeat(self.local_rates[-1] if self.local_rates else 1.0))

        def step(grads: Sequence[Tensor]) -> None:
            nonlocal velocity
            with torch.no_grad():
                move = torch._foreach_add(list(grads), params, alpha=self.l2) if self.l2 else list(grads)
                if self.momentum:
                    if velocity:
                        torch._foreach_mul_(velocity, self.momentum)
                        torch._foreach_add_(velocity, move)
                    else:
                        velocity = [g.clone() for g in move]
                    move = velocity
                if self.proximal:
                    pull = torch._foreach_sub(params, start)
                    move = torch._foreach_add(move, pull, alpha=self.proximal)
                torch._foreach_add_(params, move, alpha=-lr * next(rates))

        return step

    def begin_rows(self, rows_mp: Tensor, lr_m: Sequence[float]) -> Callable[[Tensor], None]:
        """Start a round of m participants at once; the same steps as :meth:`begin`, bit for bit.

        Args:
            rows_mp: Their parameters, a row each, changed in place by every step.
            lr_m: Their learning rates.

        Returns:
            The step, given the gradients of the first rows: of all, or of fewer once the others are done.
        """
        start_mp = rows_mp.clone() if self.proximal else rows_mp
        velocity_mp: Tensor | None = None
        rates = chain(self.local_rates or (1.0,), repeat(self.local_rates[-1] if self.local_rates else 1.0))
        same = len(set(lr_m)) == 1

        def step(grads_mp: Tensor) -> None:
            nonlocal velocity_mp
            many, rate = len(grads_mp), next(rates)
            rows, move = rows_mp[:many], grads_mp
            if self.l2:
                move = torch.add(move, rows, alpha=self.l2)
            if self.momentum:
                velocity_mp = move.clone() if velocity_mp is None else velocity_mp[:many].mul_(self.momentum).add_(move)
                move = velocity_mp
            if self.proximal:
                move = torch.add(move, rows - start_mp[:many], alpha=self.proximal)
            if same:
                rows.add_(move, alpha=-lr_m[0] * rate)
            else:
                factors_m = torch.tensor([-lr * rate for lr in lr_m[:many]], dtype=rows.dtype)
                rows.addcmul_(move, factors_m.unsqueeze(1))

        return step

    @override
    def weights(self, tau: int, lr: float) -> tuple[float, ...]:
        return _weights(self.momentum, self.proximal * lr, self.local_rates, tau)


@lru_cache(maxsize=4096)
def _weights(rho: float, eta_mu: float, rates: tuple[float, ...], tau: int) -> tuple[float, ...]:
    """Return the weights by the backward recursion of the update rule, exact for every combination.

    Let c_t be the factor by which u_t moves theta^tau and w_t the factor of g_t. Going backwards,
    c_t = s_t * prod_{q>t} (1 - s_q eta mu) and w_t = c_t + rho w_{t+1}.
    """
    weights = [0.0] * tau
    decay, following = 1.0, 0.0
    for t in reversed(range(tau)):
        s_t = rates[min(t, len(rates) - 1)] if rates else 1.0
        weights[t] = following = s_t * decay + rho * following
        decay *= 1.0 - s_t * eta_mu
    return tuple(weights)


class TorchOptimizer(LocalOptimizer):
    """Any optimizer class of ``torch.optim``: allowed, outside the theory, w_bar taken as 1.

    Args:
        name: Class name in ``torch.optim`` (``Adam``) or a full import path.
        keep_state: Keep moments from one round to the next; by default each round starts afresh.
        options: Further arguments of the class, without ``lr``; None: the class's default.
    """

    def __init__(self, name: str, keep_state: bool = False, **options: Any) -> None:
        self.name = name
        self.keep_state = yes_or_no("optimizer.keep_state", keep_state)
        self.options = {key: value for key, value in options.items() if value is not None}
        self._kept: torch.optim.Optimizer | None = None
        try:  # some options fail only in a step
            _step_by_zero(self._build, [torch.zeros(1, 1, requires_grad=True)])
        except ConfigError:
            raise
        except (TypeError, ValueError, RuntimeError, ArithmeticError) as error:
            raise ConfigError(f"optimizer ({self.name}): {str(error).splitlines()[0]}") from error

    def __str__(self) -> str:
        return self.name

    @cached_property
    def _class(self) -> Callable[..., torch.optim.Optimizer]:
        if not isinstance(self.name, str) or not all(part.isidentifier() for part in self.name.split(".")):
            raise ConfigError(f"optimizer.name: expected a class of torch.optim such as 'Adam', got {self.name!r}")
        module, _, name = self.name.rpartition(".")
        found = getattr(importlib.import_module(module or "torch.optim"), name, None)
        if not (isinstance(found, type) and issubclass(found, torch.optim.Optimizer)):
            raise ConfigError(f"optimizer.name: expected a class of torch.optim such as 'Adam', got '{self.name}'")
        closure = inspect.signature(found.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ConfigError(f"optimizer.name: {name} needs a closure; expected an optimizer that takes gradients")
        return found

    def _build(self, params: Sequence[Tensor], lr: float) -> torch.optim.Optimizer:
        try:
            return _uncompiled(self._class)(params, lr=lr, **self.options)
        except ConfigError:
            raise
        except (TypeError, ValueError, ModuleNotFoundError) as error:
            raise ConfigError(f"optimizer ({self.name}): {error}") from error

    @override
    def save(self) -> Any:
        return None if self._kept is None else self._kept.state_dict()

    @override
    def load(self, params: Sequence[Tensor], saved: Any) -> None:
        self._kept = None
        if saved is not None:
            self._kept = self._build(params, lr=0.1)  # every round sets its own rate
            self._kept.load_state_dict(saved)
            likes = [p.detach().clone() for p in params]
            new = _step_by_zero(self._build, likes)
            for param, like in zip(params, likes, strict=True):
                found, expected = (
                    {name: value.shape for name, value in state.items() if isinstance(value, Tensor)}
                    for state in (self._kept.state[param], new.state[like])
                )
                if found and found != expected:
                    raise ValueError(f"moments of shapes {found}, expected {expected}")

    @override
    def begin(self, params: Sequence[Tensor], lr: float) -> Step:
        optimizer = self._kept
        if optimizer is None:
            optimizer = self._build(params, lr)
            self._kept = optimizer if self.keep_state else None
        for group in optimizer.param_groups:
            group["lr"] = lr

        def step(grads: Sequence[Tensor]) -> None:
            for param, grad in zip(params, grads, strict=True):
                param.grad = grad
            optimizer.step()

        return step


@cache
def _uncompiled(kind: Any) -> Callable[..., torch.optim.Optimizer]:
    """Return one of torch's own classes without its care for ``torch.compile``, whose import takes 2 s.

    Its numbers are the same. Any other class is returned as it is.
    """
    if not f"{kind.__module__}.".startswith("torch.optim."):
        return kind  # type: ignore[no-any-return]
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "state_dict", "load_state_dict")}
    compute = inspect.unwrap(kind.step)

    def step(self: torch.optim.Optimizer) -> None:
        with torch.set_grad_enabled(self.defaults.get("differentiable", False)):
            compute(self)

    return type(kind.__name__, (kind,), {**plain, "step": step})


def _step_by_zero(build: Callable[..., torch.optim.Optimizer], params: Sequence[Tensor]) -> torch.optim.Optimizer:
    """Return a new optimizer after a step with zero gradients."""
    optimizer = build(params, lr=0.1)
    for param in params:
        param.grad = torch.zeros_like(param)
    optimizer.step()
    return optimizer


def clip_gradients(grads: Sequence[Tensor], max_norm: float) -> Sequence[Tensor]:
    """Return ``grads`` scaled so that their joint Euclidean norm is at most ``max_norm``.

    Not in place: autograd may return one tensor as the gradient of two parameters.
    """
    norm = torch.nn.utils.get_total_norm(list(grads))
    return torch._foreach_mul(list(grads), torch.clamp(max_norm / (norm + 1e-6), max=1.0))
