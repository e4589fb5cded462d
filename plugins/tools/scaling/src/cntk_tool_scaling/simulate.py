"""``cntk simulate``: how a recipe's training scales over a simulated network."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import attrs

from cntk_core.api import Config, DataError, RankGone, UsageError
from cntk_core.api.parallel import NetworkModel
from cntk_core.api.recipes import RecipeContext, prepare_training
from cntk_tool_scaling.bench_file import ComputeTimes, Measurements, read_measurements
from cntk_tool_scaling.cut import ALL_VALUES, ModelShape
from cntk_tool_scaling.drive import FULL, Pace
from cntk_tool_scaling.figure import check_drawable, draw
from cntk_tool_scaling.measure import compute_times, sizes_up_to
from cntk_tool_scaling.measure_parallel import SIMULATED, aggregation_seconds
from cntk_tool_scaling.methods import OF_RECIPE, Method, find_method
from cntk_tool_scaling.networks import network_of
from cntk_tool_scaling.outcome import Failures, Outcome, amount, head, row
from cntk_tool_scaling.recipes import training_section
from cntk_tool_scaling.simulation import Cluster, simulate


@attrs.frozen
class SimulateRequest:
    """What is simulated.

    Attributes:
        recipe: ``configFile=...`` and ``key=value``.
        ranks: numbers of ranks.
        network: a name, numbers, or a file of ``cntk bench``.
        section: of the recipe.
        methods: see ``find_method``.
        minibatches: samples, or ``8x`` for so many times the ranks; empty for the recipe's size.
        bench: a file of ``cntk bench``; empty for none.
        samples_per_second: of a rank; 0 if that is measured.
        jitter, slowness, seed: see ``Pace``.
        quantize_rate: values per second that a rank compresses; 0 if that is measured; ``inf`` for no time.
        sum_rate: bytes per second that a rank adds up; 0 for what the file of ``cntk bench`` says, or no time.
        ranks_per_host, local: see ``network_of``.
        failures: how often ranks fail.
        dies: simulated seconds after which a rank fails for good, by rank.
        turns: exchanges that are measured; 0 chooses.
        epoch: for schedules, from 1; 0 is the last one of the recipe.
        values: of the models of all ranks together, at most.
        plot, output: files to draw and to write; empty for none.
        plugin_files: Python files with further components.
    """

    recipe: tuple[str, ...]
    ranks: tuple[int, ...]
    network: str = "10GbE"
    section: str | None = None
    methods: tuple[str, ...] = (OF_RECIPE,)
    minibatches: tuple[str, ...] = ()
    bench: str = ""
    samples_per_second: float = 0.0
    jitter: float = 0.0
    slowness: tuple[float, ...] = (1.0,)
    seed: int = 1
    quantize_rate: float = 0.0
    sum_rate: float = 0.0
    ranks_per_host: int = 1
    local: str = ""
    failures: Failures = attrs.field(factory=Failures)
    dies: tuple[tuple[int, float], ...] = ()
    turns: int = 0
    epoch: int = 0
    values: int = ALL_VALUES
    plot: str = ""
    output: str = ""
    plugin_files: tuple[str, ...] = ()


def run_simulation(request: SimulateRequest) -> int:
    """Simulate all methods with all numbers of ranks, print a table, draw and write files.

    Raises:
        CntkError: the recipe is wrong, something is not installed, or an option makes no sense.
    """
    _check(request)
    if request.plot:
        check_drawable(request.plot)
    context, section = training_section(request.recipe, request.section, request.plugin_files)
    sgd = section.section("SGD")
    methods = [find_method(name, context, sgd) for name in request.methods]
    measured = read_measurements(Path(request.bench)) if request.bench else Measurements()
    pace = _pace(request, context, section, measured, methods)
    cluster = Cluster(
        context.plugins.registry.communicators.get(SIMULATED),
        _network(request, measured),
        _model(context, section),
        request.failures,
        dict(request.dies),
        request.turns,
        request.values,
    )
    print(_title(section, cluster, pace))
    outcomes = _all(request, methods, pace, cluster)
    _notes(request, outcomes)
    if request.output:
        _write(outcomes, Path(request.output))
    if request.plot:
        draw(outcomes, Path(request.plot), cluster.network.title)
    for path in filter(None, (request.output, request.plot)):
        print(path)
    return 0


def _check(request: SimulateRequest) -> None:
    if not request.ranks or min(request.ranks) < 1:
        raise UsageError("-n needs numbers of ranks that are at least 1", hint="cntk simulate recipe.cntk -n 2,8,64")
    if request.jitter < 0:
        raise UsageError("--jitter must not be negative")
    if min(request.slowness) <= 0:
        raise UsageError("every number of --slow must be more than 0")
    if min(request.samples_per_second, request.quantize_rate, request.sum_rate) < 0:
        raise UsageError("rates must be more than 0")
    failures = request.failures
    if failures.mtbf <= 0 or failures.every <= 0 or min(failures.writing, failures.restart) < 0:
        raise UsageError("--mtbf and --checkpoint-every must be more than 0, other times not negative")


def _all(request: SimulateRequest, methods: Sequence[Method], pace: Pace, cluster: Cluster) -> list[Outcome]:
    """Simulate everything and print it as it comes; methods with several sizes of minibatches get a title for each.

    What cannot be is left out, and said; it is an error if that is everything.
    """
    outcomes: list[Outcome] = []
    skipped: list[UsageError] = []
    sizes = request.minibatches or (str(pace.minibatch),)
    for method in methods:
        for size in sizes:
            shown = method.title if len(sizes) == 1 else f"{method.title}, minibatches of {size}"
            print(head(shown), flush=True)
            for ranks in sorted(set(request.ranks)):
                try:
                    found = simulate(method, ranks, attrs.evolve(pace, minibatch=minibatch_size(size, ranks)), cluster)
                except RankGone as error:
                    raise _lost(error, request) from None
                except UsageError as error:
                    skipped.append(error)
                    print(f"{ranks:5}  skipped: {error.message}", flush=True)
                    continue
                outcomes.append(attrs.evolve(found, method=shown))
                print(row(outcomes[-1]), flush=True)
    if not outcomes:
        raise skipped[0]
    return outcomes


def _lost(error: RankGone, request: SimulateRequest) -> RankGone:
    """Say what is lost when a rank fails."""
    at = min(seconds for _, seconds in request.dies)
    kept = at - at % request.failures.every
    return RankGone(
        str(error),
        hint=f"All ranks end. With a checkpoint every {request.failures.every:g} s, {at - kept:.6g} s of the work of "
        f"every rank is lost, and training goes on after {request.failures.restart:g} s.",
    )


def minibatch_size(text: str, ranks: int) -> int:
    """Return the samples of a minibatch: a number, or one times the ranks (``8x``).

    Raises:
        UsageError: it is none.
    """
    number = text.removesuffix("x")
    if not number.isdecimal() or int(number) < 1:
        raise UsageError(
            f"'{text}' is no size of minibatches", hint="--minibatch-size 1024,8192 or 8x (times the ranks)"
        )
    return int(number) * (ranks if text.endswith("x") else 1)


def _network(request: SimulateRequest, measured: Measurements) -> NetworkModel:
    if request.network.endswith(".json"):
        found = read_measurements(Path(request.network)).network
        if found is None:
            raise DataError(
                f"'{request.network}' says nothing of a network", hint="Write it with cntk bench -n 2 -o FILE."
            )
    else:
        found = network_of(request.network, ranks_per_host=request.ranks_per_host, local=request.local)
    return attrs.evolve(found, sum_rate=request.sum_rate or measured.sum_rate)


def _model(context: RecipeContext, section: Config) -> ModelShape:
    network = context.describe_network(section)
    network.infer()
    shapes = tuple(one.known_shape for one in network.parameters if one.learned)
    return ModelShape(shapes, network.dtype.name)


def _pace(
    request: SimulateRequest,
    context: RecipeContext,
    section: Config,
    measured: Measurements,
    methods: Sequence[Method],
) -> Pace:
    sgd = section.section("SGD")
    minibatch = sgd.schedule("minibatchSize", int, 256)
    epoch = (request.epoch or max(1, sgd.integer("maxEpochs", 1))) - 1
    size = minibatch[epoch]
    if request.samples_per_second:
        compute = ComputeTimes.proportional(1 / request.samples_per_second)
    elif measured.compute is not None:
        compute = measured.compute
    else:
        print("measuring how long this machine computes with minibatches ...", flush=True)
        training = prepare_training(context, section)
        try:
            compute = compute_times(training, sizes_up_to(max(size, 256)), seconds=0.5)
        finally:
            training.reader.close()
    return Pace(
        size,
        compute,
        request.jitter,
        request.slowness,
        request.seed,
        _value_seconds(request, context, measured, methods),
        epoch=epoch,
    )


def _value_seconds(
    request: SimulateRequest, context: RecipeContext, measured: Measurements, methods: Sequence[Method]
) -> dict[str, float]:
    """Return what each aggregation that is used takes for a value."""
    found: dict[str, float] = {}
    for method in methods:
        for name, one in method.make().aggregations.items():
            if name == FULL or name in found:
                continue
            if request.quantize_rate:
                found[name] = 0.0 if math.isinf(request.quantize_rate) else 1 / request.quantize_rate
            elif name in measured.aggregations:
                found[name] = measured.aggregations[name]
            else:
                kind, settings = type(one), one.settings
                found[name] = aggregation_seconds(context.plugins.registry, lambda k=kind, s=settings: k(s))  # type: ignore[misc]
    return found


def _title(section: Config, cluster: Cluster, pace: Pace) -> str:
    network = cluster.network
    rate = "without limit" if math.isinf(network.bandwidth) else f"{amount(network.bandwidth)}/s"
    per_second = pace.minibatch / pace.compute.seconds(pace.minibatch)
    return (
        f"{section.name}: {cluster.model.values} learned parameters, one rank alone {per_second:.5g} samples/s\n"
        f"network {network.title}: {rate}, latency {1e6 * network.latency:.4g} us, "
        f"{1e6 * network.overhead:.4g} us per message"
    )


def _notes(request: SimulateRequest, outcomes: Sequence[Outcome]) -> None:
    cut = [one for one in outcomes if one.share < 1]
    if cut:
        print(
            "\nWith "
            + ", ".join(str(ranks) for ranks in sorted({one.ranks for one in cut}))
            + f" ranks the code ran with a model of {min(one.share for one in cut):.2%} of the values or more; "
            "the bytes are those of the whole one."
        )
    if not math.isinf(request.failures.mtbf):
        worst = min(outcomes, key=lambda one: one.useful)
        print(
            f"\nFailures and checkpoints leave {worst.useful:.1%} of the time with {worst.ranks} ranks; "
            "speed-up, efficiency and samples/s count that."
        )


def _write(outcomes: Sequence[Outcome], path: Path) -> None:
    told = [{**attrs.asdict(one), "speedup": one.speedup, "efficiency": one.efficiency} for one in outcomes]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"the file '{path}' cannot be written: {error.strerror}") from None
