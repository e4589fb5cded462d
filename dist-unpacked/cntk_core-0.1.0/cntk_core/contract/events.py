"""What event hooks are told: frozen records, one per kind of event."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from cntk_core.config import Config
    from cntk_core.network.network import Network


@attrs.frozen(eq=False)
class Job:
    """One action of a recipe that is about to run, or runs.

    Attributes:
        name: the section of the recipe (``Train``).
        action: what it does (``train``, ``test``, ``cv``, ``write``).
        engine: name of the engine; empty if the action needs none.
        network: the network that is trained or evaluated; listeners must not change it.
        model_path: where models are written; None if the action writes none.
        epochs: number of epochs that the recipe asks for; 0 for actions without epochs.
        first_epoch: index of the first epoch of this run, from 0; more than 0 after a resume.
        rank, ranks: this worker and how many there are.
        block: where a listener finds keys of its own: the SGD block of a training, else the section. Keys that are not
            in it are looked up around it. None if there is no recipe.
    """

    name: str
    action: str
    engine: str = ""
    network: Network | None = None
    model_path: Path | None = None
    epochs: int = 0
    first_epoch: int = 0
    rank: int = 0
    ranks: int = 1
    block: Config | None = None


@attrs.frozen(eq=False)
class JobOutcome:
    """How a job ended.

    Attributes:
        succeeded: it ran to its end, or was stopped by a hook or the schedule.
        epochs: epochs that were finished in this run.
        seconds: wall-clock time.
        stopped: why it ended before its last epoch (the text of ``cntk_should_stop``); empty otherwise.
        error: what went wrong, None if nothing did.
    """

    succeeded: bool
    epochs: int = 0
    seconds: float = 0.0
    stopped: str = ""
    error: BaseException | None = None


@attrs.frozen
class EpochStart:
    """An epoch that begins.

    Attributes:
        epoch: index, from 0.
        minibatch_size: samples of a minibatch over all ranks.
        learning_rate: per sample.
        momentum: effective momentum of a full minibatch.
        steps: updates of the model so far, those of earlier runs included.
        minibatches: of this epoch that an earlier run has learned, where this one goes on inside it.
    """

    epoch: int
    minibatch_size: int
    learning_rate: float
    momentum: float = 0.0
    steps: int = 0
    minibatches: int = 0


@attrs.frozen
class EpochSummary:
    """An epoch that ended.

    Attributes:
        epoch: index, from 0.
        samples: samples of all ranks.
        minibatches: updates of this epoch.
        criteria: averages per sample by node name; the training criterion comes first.
        validation: the same on the validation set; empty without one.
        learning_rate: per sample.
        minibatch_size: samples of a minibatch over all ranks.
        seconds: wall-clock time.
    """

    epoch: int
    samples: int
    minibatches: int
    criteria: Mapping[str, float]
    validation: Mapping[str, float] = attrs.field(factory=dict)
    learning_rate: float = 0.0
    minibatch_size: int = 0
    seconds: float = 0.0


@attrs.frozen
class MinibatchResult:
    """A minibatch that was learned or evaluated.

    Attributes:
        epoch: index, from 0.
        minibatch: index in the epoch, from 0.
        samples: samples of this minibatch, of all ranks.
        samples_in_epoch: samples of the epoch so far, this minibatch included.
        criteria: averages per sample since the last minibatch that had any, by node name. Results stay on the device
            until a log line needs them, so this is empty at most minibatches.
        seconds: wall-clock time since the epoch began.
    """

    epoch: int
    minibatch: int
    samples: int
    samples_in_epoch: int
    criteria: Mapping[str, float] = attrs.field(factory=dict)
    seconds: float = 0.0


@attrs.frozen
class MinibatchSource:
    """Where a minibatch comes from.

    Attributes:
        command: the section of the recipe (``Train``).
        key: the block of the reader (``reader``, ``cvReader``).
        epoch: index, from 0.
        minibatch: index in the epoch, from 0.
        rank: this worker.
    """

    command: str
    key: str
    epoch: int
    minibatch: int
    rank: int = 0


@attrs.frozen
class UpdateStep:
    """An update of the parameters that is about to be made.

    Attributes:
        epoch: index, from 0.
        minibatch: index in the epoch, from 0.
        samples: of the minibatch, of all ranks that reduce gradients.
        learning_rate: per sample.
        step: updates of the model so far.
    """

    epoch: int
    minibatch: int
    samples: int
    learning_rate: float
    step: int


@attrs.frozen
class EvaluationResult:
    """An evaluation that has ended.

    Attributes:
        criteria: averages per sample by node name.
        samples: samples of all ranks.
        minibatches: how many there were.
        model: the file that was evaluated, where the action has one.
        epoch: index from 0 of the epoch that training has ended, for its validation set; None for other evaluations.
    """

    criteria: Mapping[str, float]
    samples: int
    minibatches: int
    model: str = ""
    epoch: int | None = None
