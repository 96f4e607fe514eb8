"""A model in the places that it can take: samples that suit it, and a run with it in there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flexray.check.samples import Content, Samples
from flexray.check.trial import SEED, WIDTH, Trial, seeded
from flexray.core.errors import ConfigError
from flexray.core.messages import SERVER, SERVER_INDEX
from flexray.engine.hosts.inline import borrowed_torch
from flexray.engine.parties.devices import seed_torch
from flexray.engine.parties.party import Party
from flexray.engine.parties.server import Server
from flexray.models import OFFERS, build_module, sees_missing, takes

Inputs = tuple[Tensor, ...]
PARTY = "party"
FLAT = (3, 4)
"""Shape of the samples of a model that takes them flattened."""
SHAPES: tuple[tuple[tuple[int, ...], Content], ...] = (
    ((1, 8, 8), "numbers"), ((3, 32, 32), "numbers"), ((5, 4), "sequences"), ((6,), "tokens"), ((12,), "numbers"),
    ((6,), "words"),
)  # fmt: skip
"""Shapes of samples that are tried for a model that does not say what it takes."""


@dataclass
class Role:
    """A model in its place.

    Args:
        name: ``party`` or ``server``.
        factory: Makes the model.
        trial: A run with the model in this place.
        suits: Whether samples were found that it takes.
    """

    name: str
    factory: Callable[..., nn.Module]
    trial: Trial
    suits: bool = True

    def construct(self, trial: Trial) -> None:
        """Build the participant, whose constructor refuses a model that cannot do its work."""
        with borrowed_torch():
            if self.name == SERVER:
                Server(trial.shared(), [WIDTH] * len(trial.dataset.outline().parties))
            else:
                Party(trial.specs()[0], trial.shared())

    @property
    def words(self) -> str:
        """The place in words."""
        return f"as {'the' if self.name == SERVER else 'a'} {self.name}"

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a party's samples."""
        return self.trial.dataset.features(0, torch.float32)["train"].sample_shape

    def build(self) -> nn.Module:
        """Return a model as a participant makes it, in train mode."""
        outline, shape = self.trial.dataset.outline(), self.sample_shape
        sizes: dict[str, Any] = {"in_features": int(np.prod(shape)), "in_shape": shape, "out_features": WIDTH}
        if self.name == SERVER:
            parties = len(outline.parties)
            sizes = {"in_features": WIDTH * parties, "out_features": outline.task.num_outputs, "parties": parties}
        seed_torch(SEED, SERVER_INDEX if self.name == SERVER else 1, "init")
        return build_module(self.factory, **sizes).train()

    def inputs(self, dtype: torch.dtype = torch.float32, size: int = 4) -> Inputs:
        """Return what the model is called with for some samples."""
        if self.name == SERVER:
            parties = len(self.trial.dataset.outline().parties)
            embeddings = torch.randn(size, WIDTH * parties, dtype=dtype, generator=seeded(3))
            present = torch.rand(size, parties, generator=seeded(4)) < 0.7
            return (embeddings, present) if sees_missing(self.factory) else (embeddings,)
        x = self.trial.dataset.features(0, dtype)["train"].batch(np.arange(size), 0)
        if isinstance(x, tuple):
            return x
        return (x.flatten(1) if _is_flat(self.factory) else x,)


def roles_of(factory: partial[Any], words: Mapping[str, Any]) -> list[Role]:
    """Return the places that a model can take.

    Args:
        factory: Makes the model, with the user's arguments bound.
        words: ``role``: ``party``, ``server``, or None for both, if its constructor takes ``in_features`` and
            ``out_features``; ``in_shape``: shape of one sample.

    Raises:
        ConfigError: A word makes no sense.
    """
    role, shape = words.get("role"), words.get("in_shape")
    if role not in (None, PARTY, SERVER):
        raise ConfigError(f"role: expected {PARTY} or {SERVER}, got {role!r}")
    both = {"in_features", "out_features"} <= _open(factory) and _is_flat(factory)
    sees = sees_missing(factory)
    found = [] if role == SERVER or sees else [_as_party(factory, shape)]
    if role == SERVER or sees or (role is None and both):
        found.append(Role(SERVER, factory, Trial(Samples(("left", "right"), FLAT), server=factory)))
    return found


def _as_party(factory: partial[Any], shape: Any) -> Role:
    """Return a party with samples that suit the model, or else with the first ones that were tried."""
    tried = SHAPES
    if shape is not None:
        if not isinstance(shape, Sequence) or not shape or not all(isinstance(n, int) and n > 0 for n in shape):
            raise ConfigError(f"in_shape: expected a list of positive whole numbers, got {shape!r}")
        several: dict[int, tuple[Content, ...]] = {2: ("sequences",), 1: ("tokens", "words")}
        tried = tuple((tuple(shape), content) for content in (*several.get(len(shape), ()), "numbers"))
    elif _is_flat(factory):
        bound = factory.keywords.get("in_features")
        tried = ((FLAT if bound is None else (bound,), "numbers"),)
    roles = [Role(PARTY, factory, Trial(Samples((PARTY,), *one), party=factory)) for one in tried]
    return next((role for role in roles if _suits(role)), replace(roles[0 if shape is None else -1], suits=False))


def _is_flat(factory: Callable[..., nn.Module]) -> bool:
    """Whether a model takes samples flattened."""
    return takes(factory, "in_features") and not takes(factory, "in_shape")


def _open(factory: partial[Any]) -> set[str]:
    """Return the parameters that flexray fills in."""
    return {name for name in OFFERS if takes(factory, name) and name not in factory.keywords}


def _suits(role: Role) -> bool:
    try:
        with borrowed_torch(), torch.no_grad():
            role.build().eval()(*role.inputs())
    except Exception:  # noqa: BLE001 - of any kind; the one for the samples that are taken is shown
        return False
    return True
