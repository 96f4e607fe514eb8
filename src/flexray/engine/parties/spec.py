"""Descriptions of parties and server, from which each process builds its own. They can be pickled.

Shapes: n = samples of a split, o_k = embedding width of party k.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from flexray.core.errors import ConfigError, blame
from flexray.core.links import PLAIN, Wire
from flexray.core.messages import LABELS_AT, SERVER, SERVER_INDEX, FloatArray
from flexray.data.base import SPLITS, ArrayFeatures, BoolArray, Dataset, Features, IdArray, Outline, Split
from flexray.data.batches import BatchStream
from flexray.data.outlines import check_classes, load_labels
from flexray.engine.parties.devices import ON_CPU, Compute, seed_torch
from flexray.models import ModuleFactory, build_module, sees_missing
from flexray.optimizers import LocalOptimizer

Stacking = Literal["exact", "always", "off"]
STACKING = get_args(Stacking)
StandsIn = Literal["zeros", "mean", "last", "learned"]
STANDS_IN = get_args(StandsIn)

STAND_IN = "stand_in"
"""A parameter of the server's model [o] and, of other kinds, an array in a party's state."""

log = logging.getLogger("flexray")


@dataclass(frozen=True)
class ParticipantSpec:
    """One party or the server.

    Args:
        name: Party name, or ``server``.
        index: 1..K for parties, 0 for the server.
        model: Makes its model; see :func:`flexray.models.build_module`.
        optimizer: Its local optimizer.
        clip_norm: Largest gradient norm, or None.
        frozen: It stays as it is: no local iterations, no running statistics.
        compute: Where it computes and in which precision.
        labels_only: It holds the labels and has no features: its embeddings have no width.
    """

    name: str
    index: int
    model: ModuleFactory
    optimizer: LocalOptimizer
    clip_norm: float | None = None
    frozen: bool = False
    compute: Compute = ON_CPU
    labels_only: bool = False


@dataclass(frozen=True)
class Shared:
    """Settings that all participants of a run share.

    Args:
        dataset: The dataset.
        outline: Its names, sizes and task.
        server: The server, whose model every party keeps a frozen copy of.
        seed: The run's seed.
        batch_size: B.
        replacement: Draw batches with replacement.
        drop_last: Leave out the short last batch of an epoch.
        embedding_width: Width offered to party models as ``out_features``.
        dtype: ``float32`` or ``float64``.
        threads: Threads per party.
        wires: Changes of the embeddings of parties on their way, in order; of those beyond the end: none.
        error_feedback: What goes over a wire is the change of embeddings since their samples were last sent.
        labels_at: Holders of the labels: ``all``; or the ``server`` or one party, by name, alone: a party then gets the
            gradient of the loss with respect to its embeddings once per round and reuses it (FedBCD, Liu et al., 2019).
        may_miss: The parties (0-based) that may miss rounds; their last embedding of every sample is stored.
        predicts: A saved model predicts; splits may lack labels.
        stack: Let parties of one process share operations: ``exact``: where all bits stay the same; ``always``: where
            they may differ; ``off``.
        learns: Whether anything is trained; else the run only takes its time.
        stands_in: What stands in for the embedding of a sample that its party does not have.
        selects: Whether features and components of embeddings are dropped; models then begin with a linear layer.
        clients: Clients of every party, among which its samples are divided.
        per_gradient: Local iterations along each gradient, where parties are ahead of theirs; 0: they never are.
    """

    dataset: Dataset
    outline: Outline
    server: ParticipantSpec
    seed: int
    batch_size: int
    replacement: bool = False
    drop_last: bool = False
    embedding_width: int = 32
    dtype: Literal["float32", "float64"] = "float32"
    threads: int = 1
    wires: tuple[Wire, ...] = ()
    error_feedback: bool = False
    labels_at: str = "all"
    may_miss: frozenset[int] = frozenset()
    predicts: bool = False
    stack: Stacking = "exact"
    learns: bool = True
    stands_in: StandsIn = "zeros"
    selects: bool = False
    clients: int = 1
    per_gradient: int = 0

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of features, parameters and embeddings."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @property
    def label_party(self) -> int | None:
        """The party (0-based) that alone holds the labels; None: all do, or the server."""
        return None if self.labels_at in LABELS_AT else self.outline.parties.index(self.labels_at)

    @property
    def eval_batch(self) -> int:
        """Samples per step when whole splits are embedded."""
        return max(256, self.batch_size)

    def wire(self, party: int) -> Wire:
        """Return what party ``party`` (0-based) does to embeddings that it sends."""
        return self.wires[party] if party < len(self.wires) else PLAIN

    def stores_last(self, party: int) -> bool:
        """Whether the last embeddings of every training sample that party ``party`` (0-based) sent are stored."""
        return party in self.may_miss or (self.error_feedback and self.wire(party) != PLAIN)

    def lacks(self, party: int, split: Split = "train") -> bool:
        """Whether party ``party`` (0-based) does not have all samples of a split."""
        return self.outline.present is not None and not bool(self.outline.present[split][:, party].all())

    def has(self, party: int, ids_b: IdArray, split: Split = "train") -> BoolArray:
        """Return which of these samples party ``party`` (0-based) has."""
        if self.outline.present is None:
            return np.ones(len(ids_b), np.bool_)
        has_b: BoolArray = self.outline.present[split][ids_b, party]
        return has_b

    def count(self, party: int, ids_b: IdArray) -> int:
        """Return how many of these training samples party ``party`` (0-based) has."""
        return len(ids_b) if self.outline.present is None else int(self.has(party, ids_b).sum())

    def counts(self, ids_b: IdArray) -> list[int]:
        """Return how many of these training samples every party has."""
        present = self.outline.present
        if present is None:
            return [len(ids_b)] * len(self.outline.parties)
        has_bk: BoolArray = present["train"][ids_b]
        return [int(many) for many in has_bk.sum(axis=0)]

    def block_bytes(self, party: int, block_bo: FloatArray, ids_b: IdArray) -> int:
        """Return the bytes of party ``party``'s (0-based) message of the embeddings of samples ``ids_b``."""
        samples, width = self.count(party, ids_b), int(block_bo.shape[1])
        if not self.wires:
            return samples * width * block_bo.itemsize
        return self.wire(party).nbytes(samples, width, block_bo.itemsize) if samples else 0

    def all_block_bytes(self, parties: Sequence[int], blocks: Sequence[FloatArray], ids_b: IdArray) -> list[int]:
        """Return :meth:`block_bytes` of several parties."""
        if not self.wires and self.outline.present is None:
            return [block.nbytes for block in blocks]
        return [self.block_bytes(party, block, ids_b) for party, block in zip(parties, blocks, strict=True)]

    def batches(self) -> BatchStream:
        """Return the stream of mini-batches that all participants share."""
        return self._stream("batches")

    def turns(self, party: int) -> BatchStream:
        """VAFL: return the stream of mini-batches of party ``party`` (1..K) alone."""
        return self._stream(f"turns-{party}")

    def _stream(self, name: str) -> BatchStream:
        train = self.outline.sizes["train"]
        return BatchStream(train, self.batch_size, self.seed, name, self.replacement, self.drop_last)

    def features(self, spec: ParticipantSpec) -> Mapping[Split, Features]:
        """Load the features of a party; of one that holds labels only there are none."""
        if spec.labels_only:
            return {s: ArrayFeatures(np.empty((self.outline.sizes[s], 0)), self.torch_dtype) for s in SPLITS}
        return self.dataset.features(spec.index - 1, self.torch_dtype)

    def labels(self, for_server: bool = False) -> Mapping[str, Tensor]:
        """Load the labels of all splits, as class numbers or as numbers of :attr:`torch_dtype`.

        The server, or the party that holds them, alone checks classes, so that a fault is reported once.
        """
        kind = torch.int64 if self.outline.task.is_classification else self.torch_dtype
        with blame("dataset", "loading its labels"):
            labels = load_labels(self.dataset, self.outline, self.predicts)
            if for_server and not self.predicts:
                check_classes(labels["train"], self.dataset, self.outline)
            return {split: torch.from_numpy(np.asarray(y)).to(kind) for split, y in labels.items()}

    def build_head(self, widths: Sequence[int]) -> nn.Module:
        """Build the server's model for embeddings of these widths; the same weights in every process."""
        with blame(SERVER, "construction"):
            seed_torch(self.seed, SERVER_INDEX, "init")
            outputs = self.outline.task.num_outputs
            if sees_missing(self.server.model) and len(set(widths)) > 1:
                raise ConfigError(f"server: it averages embeddings; expected equal widths, got {list(widths)[:9]}")
            head = build_module(
                self.server.model, SERVER, in_features=sum(widths), out_features=outputs, parties=len(widths)
            )
            if self.stands_in == "learned":
                head.register_parameter(STAND_IN, nn.Parameter(torch.zeros(sum(widths))))
            return head.to(self.torch_dtype).train()


def check_model(spec: ParticipantSpec, model: nn.Module, inputs: Sequence[Tensor], shared: Shared) -> None:
    """Refuse a model that has nothing to train or cannot train on the batches, unless it is frozen or only predicts.

    Args:
        spec: The participant.
        model: In which nothing is changed.
        inputs: What it is called with, samples first.
        shared: What all participants know.

    Raises:
        ConfigError: It has no parameters, or batch normalization of a batch of one sample.
    """
    if spec.frozen or shared.predicts:
        return
    _check_trains(spec.name, model)
    if shared.batch_size == 1:
        _check_one_sample(spec.name, model, inputs)


def _check_trains(name: str, model: nn.Module) -> None:
    """Refuse a model without parameters; warn of one that has none to train on purpose."""
    if any(p.requires_grad for p in model.parameters()):
        return
    problem = f"{name}: its model has no trainable parameters"
    if next(model.parameters(), None) is None:
        hint = f"expected nn.Module attributes (lists of layers belong in nn.ModuleList), or frozen=[{name}]"
        raise ConfigError(f"{problem}; {hint}")
    log.warning("%s: its local iterations change nothing; frozen=[%s] spares them", problem, name)


def _check_one_sample(name: str, model: nn.Module, inputs: Sequence[Tensor]) -> None:
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        return
    try:
        copy.deepcopy(model).train()(*(part[:1] for part in inputs))
    except ValueError as error:
        raise ConfigError(
            f"dataset.batch_size: batch normalization of {name} cannot train on one sample; expected at least 2"
        ) from error


def peak_memory_mb() -> float | None:
    """Return the peak memory of this process in MB; None where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii", errors="replace").splitlines() if status.is_file() else []
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), None)
