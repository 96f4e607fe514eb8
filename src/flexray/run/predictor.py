"""The saved model of a finished run, ready to predict.

Shapes: n = samples of a split, c = outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from flexray.config.job import Job
from flexray.core.messages import SERVER, State
from flexray.data.base import Split
from flexray.data.outlines import without
from flexray.engine.parties.group import PartyGroup
from flexray.engine.parties.party import FITTED
from flexray.engine.parties.server import Server
from flexray.run.watch.folder import load_state
from flexray.tasks import Task


def class_names(task: Task) -> list[str | int]:
    """Return the names of the classes; classes that no label has, by number."""
    return [*task.classes, *range(len(task.classes), task.num_outputs)]


class Predictor:
    """All participants of a finished run, in this process, with their saved parameters.

    Args:
        job: The run.
        folder: The folder of the saved model.
        gone: Parties (0-based) that have no sample, so that something stands in for their embeddings.
    """

    def __init__(self, job: Job, folder: Path, gone: Collection[int] = ()) -> None:
        x = job.experiment
        states = {name: load_state(folder / f"{name}.safetensors") for name in x.names}
        fitted = {name: _fitted(states[name]) for name in x.names[:-1]}
        outline = without(x.shared.outline, gone) if gone else x.shared.outline
        self._shared = replace(x.shared, dataset=x.shared.dataset.with_fitted(fitted), outline=outline)
        self._group = PartyGroup(x.parties, self._shared)
        self._group.set_states(states)
        self._server = Server(self._shared, self._group.widths())
        self._server.set_state(states[x.names[-1]])

    def models(self) -> dict[str, nn.Module]:
        """Return every participant's model, in eval mode."""
        found = {party.name: party.model for party in self._group.parties}
        return {name: model.eval() for name, model in {**found, SERVER: self._server.head}.items()}

    def metrics(self, split: Split) -> dict[str, float]:
        """Return loss and metrics of a split; nothing if it has no samples or no labels."""
        if not self._shared.outline.sizes[split] or split not in self._shared.dataset.labels():
            return {}
        return self._server.evaluate(split, self._group.embed_split(split))

    def rows(self, split: Split) -> Iterator[list[Any]]:
        """Yield ID, prediction, label and class probabilities of every sample of a split."""
        task = self._shared.outline.task
        if not self._shared.outline.sizes[split]:
            return
        prediction_nc = self._server.predict(split, self._group.embed_split(split))
        ids = self._shared.dataset.sample_ids(split)
        labels = self._shared.dataset.labels().get(split)
        names = class_names(task)
        named = [""] * len(ids) if labels is None else [names[k] for k in labels] if task.classes else labels
        for sample, label, scores_c in zip(ids, named, prediction_nc.astype(np.float64), strict=True):
            if task.is_classification:
                weights_c = np.exp(scores_c - scores_c.max())
                yield [sample, names[scores_c.argmax()], label, *np.round(weights_c / weights_c.sum(), 6)]
            else:
                yield [sample, float(scores_c[0]), label]


def _fitted(state: State) -> State:
    return {key.removeprefix(FITTED): value for key, value in state.items() if key.startswith(FITTED)}
