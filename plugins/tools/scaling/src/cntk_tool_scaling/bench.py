"""``cntk bench``: what this machine does in a second, as a table and as a file for ``cntk simulate``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from cntk_core.api import GradientAggregation, PluginError, Registry, UsageError, elements
from cntk_core.api.parallel import NetworkModel
from cntk_core.api.recipes import RecipeContext, connect, detect, disconnect, launch, prepare_training
from cntk_tool_scaling.bench_file import Measurements, write_measurements
from cntk_tool_scaling.measure import compute_times, sizes_up_to
from cntk_tool_scaling.measure_parallel import SIMULATED, aggregation_seconds, measure_network, sum_rate
from cntk_tool_scaling.recipes import TITLE, default_recipe, training_section

LARGEST = 1024
"""Samples of the largest minibatch that is measured, if that of the recipe is smaller."""


@attrs.frozen
class BenchRequest:
    """What is measured.

    Attributes:
        recipe: ``configFile=...`` and ``key=value``; empty for a network of our own.
        section: of the recipe.
        ranks: processes between which messages are measured; 0 for none.
        output: the file.
        seconds: for each size of minibatches.
        plugin_files: Python files with further components.
        words: of the command line, for processes that take part in it.
    """

    recipe: tuple[str, ...] = ()
    section: str | None = None
    ranks: int = 0
    output: str = "bench.json"
    seconds: float = 1.0
    plugin_files: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def bench(request: BenchRequest) -> int:
    """Measure, print a table and write a file; with ranks, start them and let them do it.

    Raises:
        CntkError: something is wrong with the recipe, or a part is not installed.
    """
    if request.ranks == 1 or request.ranks < 0:
        raise UsageError(f"-n {request.ranks} makes no sense: messages need at least 2 ranks")
    if request.ranks and detect().size == 1:
        return launch(request.ranks, ["bench", *request.words], request.plugin_files)
    network = _network_between_ranks(request)
    if detect().rank == 0:
        if request.recipe:
            found = measure_recipe(request.recipe, request)
        else:
            with default_recipe() as path:
                found = attrs.evolve(measure_recipe((f"configFile={path}",), request), recipe="")
        found = attrs.evolve(found, network=network)
        write_measurements(found, Path(request.output))
        print("\n".join(table(found)))
        print(request.output)
    disconnect(detect().rank)
    return 0


def _network_between_ranks(request: BenchRequest) -> NetworkModel | None:
    """Measure the network if this process is one of several; the others have nothing to do afterwards."""
    if detect().size == 1:
        return None
    from cntk_core.api.recipes import Log, make_plugins

    started = detect()
    communicator = connect(started, make_plugins(Log(), request.plugin_files).registry)
    return measure_network(communicator, f"{started.communicator} on this machine, {started.size} ranks")


def measure_recipe(arguments: Sequence[str], request: BenchRequest) -> Measurements:
    """Measure everything that one process can."""
    context, section = training_section(arguments, request.section, request.plugin_files)
    training = prepare_training(context, section)
    try:
        sizes = sizes_up_to(max(LARGEST, training.minibatch_size))
        compute = compute_times(training, sizes, seconds=request.seconds)
    finally:
        training.reader.close()
    learned = sum(elements(one.known_shape) for one in training.loop.store.parameters if one.learned)
    return Measurements(
        arguments[0].partition("=")[2],
        learned,
        compute,
        dict(_aggregations(context)),
        sum_rate(context.dtype),
        machine=f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}",
    )


def _aggregations(context: RecipeContext) -> Iterator[tuple[str, float]]:
    """Measure the aggregations that are installed, with their default options."""
    registry: Registry = context.plugins.registry
    if SIMULATED not in registry.communicators.names():
        context.log.line("Warning: how fast gradients are compressed is measured with cntk-parallel-simulated.")
        return
    for name in registry.aggregations.names():
        try:
            kind: type[GradientAggregation] = registry.aggregations.get(name)
            yield name, aggregation_seconds(registry, kind, context.dtype)
        except PluginError as error:
            context.log.line(f"Warning: the aggregation '{name}' is not measured: {error}")


def table(found: Measurements) -> list[str]:
    """Return what was measured as lines."""
    lines = [f"{found.recipe or TITLE}: {found.parameters} learned parameters", ""]
    if found.compute is not None:
        lines.append(f"{'minibatch':>12} {'ms':>10} {'us/sample':>10} {'samples/s':>12}")
        for samples, seconds in found.compute.points:
            lines.append(
                f"{samples:12.6g} {1e3 * seconds:10.3f} {1e6 * seconds / samples:10.2f} {samples / seconds:12.0f}"
            )
        lines.append("")
    for name, seconds in found.aggregations.items():
        lines.append(f"aggregation {name + ':':<12} {1e9 * seconds:8.3f} ns per value and rank")
    lines.append(f"adding up:  {found.sum_rate / 1e9:19.2f} GB/s")
    if found.network is not None:
        network = found.network
        lines.append(
            f"{network.title}: {network.bandwidth / 1e9:.3f} GB/s, latency {1e6 * network.latency:.1f} us, "
            f"{1e6 * network.overhead:.1f} us per message"
        )
    return lines
