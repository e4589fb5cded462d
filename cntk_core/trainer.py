"""Training in a Python program: a network learns one minibatch of arrays after the other, without a recipe.

``Trainer(network, "ce", LearnerSettings("sgd", rate=0.1)).train_minibatch({"features": x, "labels": y})`` makes the
step that the action ``train`` makes, with any engine, any learners and any strategy of parallel training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import attrs
import numpy as np

from cntk_core.contract.engine import ExecutionEngine, Program
from cntk_core.contract.events import Job
from cntk_core.contract.parallel import StepCounts
from cntk_core.errors import CheckpointError, TrainingError, UnsupportedError
from cntk_core.model import Model
from cntk_core.network.initializers import initialize_parameters
from cntk_core.network.model_file import save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Node
from cntk_core.plan.arrays import take_arrays
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan, marked_assignments
from cntk_core.plugins.addresses import deliver, local_family, local_path
from cntk_core.plugins.manager import AUTO, PluginManager
from cntk_core.records.minibatch import Minibatch
from cntk_core.training.chosen_nodes import check_network, choose_nodes
from cntk_core.training.files.checkpoint import (
    FOLDER,
    SUFFIX,
    Progress,
    load_checkpoint,
    remove_unnamed,
    restore_store,
    save_checkpoint,
)
from cntk_core.training.files.position import Position
from cntk_core.training.learner_settings import (
    LearnerSettings,
    TrainingPoint,
    checked_learners,
    make_rule,
    piecewise,
    share_parameters,
)
from cntk_core.training.loop.alone import Alone
from cntk_core.training.loop.compile_learners import OwnLearner, compile_learners
from cntk_core.training.loop.criteria import Criterion, CriterionSums, StepResult, since
from cntk_core.training.loop.learner_group import StepPlace
from cntk_core.training.loop.minibatch_sizes import MinibatchSizes
from cntk_core.training.loop.rank_state import collect_state, take_back
from cntk_core.training.loop.ranks import ParallelSettings, Ranks
from cntk_core.training.loop.step import Stepper, has_frames
from cntk_core.training.loop.update import NOISE_SLOT
from cntk_core.training.parallel import Parallel

__all__ = [
    "Criterion",
    "LearnerSettings",
    "Parallel",
    "ParallelSettings",
    "StepResult",
    "Trainer",
    "TrainingPoint",
    "piecewise",
]

Data = Mapping[str, Any] | Minibatch
"""For each input by name what :meth:`cntk_core.model.Model.evaluate` takes; or a minibatch, as a reader gives it."""


class Trainer:
    """Trains a network.

    Trainers and models (:class:`~cntk_core.model.Model`) of one network have its parameters in common: each sees what
    another has learned. The state of the learners is each trainer's own.

    Args:
        network: with shapes; parameters without values get their first ones.
        criterion: what is minimised: a node, its name, or None for the first that the network marks.
        learners: one, or several with parameters of their own. Parameters that none has are left as they are.
        evaluations: nodes that are counted beside the criterion; by default those that the network marks.
        engine: name of the engine; ``auto`` is the best one here. An engine is taken as it is.
        settings: keys of the engine, as a recipe has them: ``numCPUThreads=1``.
        op_settings: numbers that operations ask for, by the key of a recipe: ``{"dropoutRate": 0.5}``.
        parallel: how several ranks train together; None is a training of one.
        seed: of parameters without values and of all random streams.
        parts: compute each minibatch in so many parts, where all of it does not fit into memory.
        padded: momentum, limits and regularisation count the gaps that CNTK's recipes pad sequences with; otherwise
            samples alone, as CNTK 2 in Python.
        before_update: called with ``job``, ``step`` and ``gradients`` by parameter name, as ``cntk_before_update`` is.
        plugins: the plugin manager, if there is one already.

    Attributes:
        model: evaluates the network as it is now, with the same engine.
        learners: the learners; their rates may be changed.
        epoch: epochs ended (:meth:`end_epoch`); 0 for who needs none.
        samples: samples seen.

    Raises:
        NetworkError: a node or a parameter is not there, or there is nothing to learn.
        PluginError, OptionError: a plugin is not there, or has no such option.
    """

    def __init__(
        self,
        network: Network,
        criterion: Any,
        learners: LearnerSettings | Sequence[LearnerSettings],
        *,
        evaluations: Sequence[Any] | None = None,
        engine: str | ExecutionEngine = AUTO,
        settings: str = "",
        op_settings: Mapping[str, float] | None = None,
        parallel: Parallel | None = None,
        seed: int = 0,
        parts: int = 1,
        padded: bool = True,
        before_update: Sequence[Callable[..., object]] = (),
        plugins: PluginManager | None = None,
    ) -> None:
        self.learners = checked_learners(learners)
        self.epoch = self.samples = 0
        self.op_settings = dict(op_settings or {})
        check_network(network, self.op_settings)
        self.seed = seed
        self.parts = parts
        self._given = {"engine": engine, "settings": settings, "padded": padded, "before_update": tuple(before_update)}
        if any(parameter.value is None for parameter in network.parameters):
            network.infer()
            initialize_parameters(network, seed)
        self.model = Model(network, engine=engine, settings=settings, plugins=plugins)
        self._nodes = choose_nodes(network, criterion, evaluations)
        self._ranks = Alone() if parallel is None else parallel.ranks(self.model.plugins.registry)
        sizes = MinibatchSizes(network, criterion=self._nodes[0], padded=padded, frames=self._frames)
        self._stepper = self._compile(network, before_update, sizes)
        self._sums = CriterionSums(self._stepper.program, self._nodes)
        self._shown: Mapping[str, Criterion] = {}
        self._team: Ranks = Alone()
        self._index = self._calls = 0
        self._has_begun = False
        self._evaluation: Program | None = None
        self._counter: Program | None = None

    def _frames(self, node: Node, minibatch: Minibatch) -> int:
        """Return how many frames a node has on an axis that is computed, which needs what it depends on alone."""
        if self._counter is None:
            self._counter = self.model.engine.compile(make_plan(self.model.network, [node]), self.model.store)
        self._counter.evaluate(minibatch)
        return self._counter.layout(node.name).frames

    def _compile(
        self, network: Network, before_update: Sequence[Callable[..., object]], sizes: MinibatchSizes
    ) -> Stepper:
        engine, store = self.model.engine, self.model.store
        trained = make_plan(network, self._nodes, self._nodes[0]).trained
        shares = share_parameters(self.learners, trained)
        found = self.model.plugins.registry.learners
        own = [
            OwnLearner(make_rule(each, found), each.around_rule(), share, each.mean)
            for each, share in zip(self.learners, shares, strict=True)
        ]
        learned = {parameter for share in shares for parameter in share}
        plan = make_plan(network, [*self._nodes, *marked_assignments(network)], self._nodes[0], learn=learned)
        self._ranks.check_assigned(plan)
        program, groups = compile_learners(engine, plan, store, own, seed=self.seed)
        idle = tuple(one for one in store.parameters if one.learned and one not in learned)
        return Stepper(
            program,
            store,
            groups,
            sizes,
            self.seed,
            Job("trainer", "train", network=network, rank=self._ranks.rank, ranks=self._ranks.size),
            before_update,
            idle=idle if len(learned) < len(trained) else (),
        )

    @property
    def steps(self) -> int:
        """Updates done."""
        return self._stepper.steps

    # -- minibatches --------------------------------------------------------------------------------------

    def train_minibatch(self, data: Data | None = None) -> StepResult:
        """Learn a minibatch.

        Args:
            data: the minibatch; of several ranks, this one's share. None is a rank without data, which others may wait
                for. A minibatch without samples changes nothing.

        Raises:
            DataError: an input is missing or does not fit.
            TrainingError: a rate makes no sense, or the ranks do not come together.
        """
        minibatch = None if data is None else _minibatch(self._stepper.program.plan, data)
        self._begin_epoch()
        counted = 0 if minibatch is None else self._stepper.sizes.samples(minibatch)
        point = TrainingPoint(self._stepper.steps, self.samples, self.epoch, counted)
        rates = tuple(learner.rates(point) for learner in self.learners)
        team, merge = self._team, self._team.merge_gradients
        team.doing(f"minibatch {self._index + 1} of epoch {self.epoch + 1}")
        place = StepPlace(self.epoch, self._index, rates, self.parts)
        total = self._stepper.learn(minibatch, place, self._sums, team.strategy, merge=merge)
        self._calls += 1
        self._index += minibatch is not None or merge
        self.samples += total.read
        if merge:
            team.compare(self._stepper.store, self._index, self.epoch)
        return StepResult(total.counted, self._stepper.steps > point.steps, merge and total.is_end, self._values(total))

    def _values(self, total: StepCounts) -> Callable[[], Mapping[str, Criterion]]:
        """Return what fetches the criteria of the minibatch that was learned just now."""
        program, call, counted = self._stepper.program, self._calls, total.counted

        def read() -> Mapping[str, Criterion]:
            if total.criteria or not total.samples:
                return {node.name: Criterion(total.criteria.get(node.name, 0.0), counted) for node in self._nodes}
            if self._calls != call:
                raise TrainingError(
                    "the criteria of this minibatch are not there any more: another one was learned",
                    hint="Ask for them before, or ask read_totals for the sums of several minibatches.",
                )
            return {node.name: Criterion(float(np.sum(program.value(node.name))), counted) for node in self._nodes}

        return read

    def test_minibatch(self, data: Data) -> dict[str, Criterion]:
        """Return the criterion and the evaluations of a minibatch, by name, without learning it; dropout is off.

        Raises:
            DataError: an input is missing or does not fit.
        """
        if self._evaluation is None:
            plan = make_plan(self.model.network, self._nodes)
            self._evaluation = self.model.engine.compile(plan, self.model.store, seed=self.seed)
        program = self._evaluation
        minibatch = _minibatch(program.plan, data)
        program.begin_epoch(self.epoch, self.op_settings)
        sums = CriterionSums(program, self._nodes)
        if minibatch is not None:
            program.evaluate(minibatch)
            sums.add(self._stepper.sizes.samples(minibatch))
        return sums.read()

    def read_totals(self) -> dict[str, Criterion]:
        """Return the sums of the criterion and the evaluations over the minibatches learned since the last call."""
        now = self._sums.read()
        fresh, self._shown = since(now, self._shown), now
        return fresh

    # -- epochs -------------------------------------------------------------------------------------------

    def _begin_epoch(self, *, inside: bool = False) -> None:
        """Begin the epoch, unless it has begun; ``inside``: what the ranks remember is of a place inside it."""
        if self._has_begun:
            return
        self._has_begun = True
        self._team = self._ranks if self._ranks.train_epoch(self.epoch) else Alone()
        self._team.begin_epoch(self._stepper.store, self.epoch, inside=inside)
        self._stepper.program.begin_epoch(self.epoch, self.op_settings, minibatches_done=self._team.first_stream)

    def end_epoch(self) -> None:
        """End an epoch, on all ranks: afterwards all have the same parameters. One rank alone need not care.

        State that goes on from minibatch to minibatch (of cut sequences) does not go on into the next epoch.
        """
        self._begin_epoch()
        point = TrainingPoint(self._stepper.steps, self.samples, self.epoch)
        rate = self.learners[0].rates(point).rate
        self._team.doing(f"the end of epoch {self.epoch + 1}")
        self._team.strategy.sync(self._stepper.store, StepCounts(0, {}, learning_rate=rate), epoch_end=True)
        self._team.share_statistics(self._stepper.store)
        self.epoch, self._index, self._has_begun = self.epoch + 1, 0, False

    # -- files --------------------------------------------------------------------------------------------

    def save(self, path: str | Path, external: Any = None) -> Path:
        """Save all that training needs to go on exactly as it would: parameters, learners, random numbers, ranks.

        The files are those of a recipe's checkpoints: a generation in ``NAME.checkpoints``, complete before the file
        ``NAME.ckp`` names it. All ranks call this; the first writes.

        Args:
            path: ``NAME.ckp``; the suffix may be left out.
            external: what the program wants to have back from :meth:`restore`, as JSON can hold it.

        Returns:
            The file that names the checkpoint.

        Raises:
            TrainingError: it cannot be written, or not at this place of training.
        """
        path, position = _checkpoint_path(path), self._position()
        ranks, stepper = self._ranks, self._stepper
        self._sums.read()
        sums, shown = self._sums.fetched, {name: one.total for name, one in self._shown.items()}
        counted = (self._sums.samples, next((one.samples for one in self._shown.values()), 0))
        totals = {"sums": sums, "shown": shown, "counted": counted}
        control = {"rules": self._rules(), **totals, "external": external}
        progress = Progress(
            self.epoch, self.samples, seed=self.seed, steps=stepper.steps, control=control, ranks=ranks.entries()
        )
        of_ranks = collect_state(ranks, stepper.store, stepper.steps, position, totals)
        if ranks.is_main:
            folder = path.with_name(path.name.removesuffix(SUFFIX) + FOLDER)
            network, store = self.model.network, stepper.store
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                without = (NOISE_SLOT,)
                save_checkpoint(
                    path, folder, network, store, progress, leave_out=without, position=position, of_ranks=of_ranks
                )
                remove_unnamed(folder)
                deliver(whole=False)
            except (OSError, TypeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise TrainingError(
                    f"the checkpoint '{path}' cannot be saved: {reason}", hint="What was there before is untouched."
                ) from None
        ranks.meet("waiting for rank 0 to save a checkpoint")
        return path

    def restore(self, path: str | Path) -> Any:
        """Go on from what :meth:`save` has written, or, from its beginning, from the checkpoint of a recipe's epoch.

        All ranks call this. The trainer is made as the one that has saved; only rates may be others.

        Returns:
            What the program gave to :meth:`save` as ``external``.

        Raises:
            CheckpointError: it is missing, damaged or of another network or of other learners.
        """
        path, stepper, ranks = _checkpoint_path(path), self._stepper, self._ranks
        checkpoint = load_checkpoint(path)
        progress, control = checkpoint.progress, checkpoint.progress.control
        if control.get("rules", self._rules()) != self._rules():
            before, now = (", ".join(each) for each in (control["rules"], self._rules()))
            raise CheckpointError(f"the checkpoint '{path}' is of the learners {before}; here they are {now}")
        restore_store(checkpoint, stepper.store)
        self.epoch, self.samples, self._has_begun = progress.epochs, progress.samples, False
        inside = checkpoint.position is not None
        if inside:
            self._begin_epoch(inside=True)
        own = take_back(checkpoint, stepper.store, ranks)
        self._index, self._calls = own.position.minibatches if own.position is not None else 0, self._calls + 1
        stepper.steps = progress.steps if own.steps is None else own.steps
        if own.position is not None:
            done = self._team.first_stream + own.position.passes
            stepper.program.begin_epoch(self.epoch, self.op_settings, minibatches_done=done)
            stepper.program.restore(own.position.program)
        self._restore_sums({**control, **own.totals})
        return control.get("external")

    def _restore_sums(self, control: Mapping[str, Any]) -> None:
        self._stepper.program.read_totals()
        counted, shown = control.get("counted", (0, 0))
        self._sums.restore(control.get("sums", {}), int(counted))
        self._shown = {name: Criterion(float(total), int(shown)) for name, total in control.get("shown", {}).items()}

    def _rules(self) -> list[str]:
        return [type(group.learner).__name__ for group in self._stepper.learners]

    def _position(self) -> Position | None:
        """Return the place inside the epoch; None at its beginning.

        Raises:
            TrainingError: nothing can be saved here.
        """
        strategy, program = self._team.strategy, self._stepper.program
        if not self._index:
            return None
        if not (strategy.reduces_gradients or strategy.has_met):
            raise TrainingError(
                f"a training by {self._team.name} can be saved here only where all ranks have just come together",
                hint="Call end_epoch on all ranks first.",
            )
        state = program.state()
        if state is None:
            raise TrainingError("this engine cannot be saved inside an epoch", hint="Call end_epoch first.")
        passes = program.step - (self.epoch << 32) - self._team.first_stream
        return Position.of_steps(self._index, passes, self.samples, state)

    def save_model(self, path: str | Path) -> None:
        """Write the network with its values as a model file; of several ranks, the first writes.

        Raises:
            OSError: it cannot be written; what was there is untouched.
        """
        if self._ranks.is_main:
            save_model(self.model.network, Path(local_path(path)))
            deliver()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._ranks.exchange:
            hint = "Save it on all ranks, and restore it on all."
            raise UnsupportedError("a trainer of several ranks cannot be pickled", hint=hint)
        learners = [
            attrs.evolve(each, parameters=None if each.parameters is None else [one.name for one in group.trained])
            for each, group in zip(self.learners, self._stepper.learners, strict=True)
        ]
        criterion, *evaluations = (node.name for node in self._nodes)
        named = {"criterion": criterion, "evaluations": evaluations, "learners": learners}
        numbers = {"op_settings": self.op_settings, "seed": self.seed, "parts": self.parts}
        with TemporaryDirectory() as folder:
            self.save(Path(folder, "trainer"))
            found = [path for path in Path(folder).rglob("*") if path.is_file()]
            files = {str(path.relative_to(folder)): path.read_bytes() for path in found}
        return _made_again, (type(self), self.model.network, {**named, **numbers, **self._given}, files)

    # -- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End parallel training. A trainer of one rank need not be closed."""
        self._ranks.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _minibatch(plan: Plan, data: Data) -> Minibatch | None:
    """Return the minibatch; None if it has no samples."""
    if isinstance(data, Minibatch):
        return data if has_frames(data) else None
    minibatch = take_arrays(plan, data).minibatch
    return minibatch if minibatch.samples else None


def _checkpoint_path(path: str | Path) -> Path:
    model = Path(local_path(path)).with_suffix("") if str(path).endswith(SUFFIX) else Path(local_path(path))
    local_family(model)
    return model.with_name(model.name + SUFFIX)


def _made_again(kind: type[Trainer], network: Network, given: Mapping[str, Any], files: Mapping[str, bytes]) -> Trainer:
    """Make a trainer that was pickled, and let it go on from its checkpoint."""
    made = kind(network, **given)
    with TemporaryDirectory() as folder:
        for name, found in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found)
        made.restore(Path(folder, "trainer"))
    return made
