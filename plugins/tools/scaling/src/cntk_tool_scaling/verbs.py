"""The verbs ``cntk bench`` and ``cntk simulate``. Imports nothing that takes time."""

from __future__ import annotations

import argparse

from cntk_core.api import UsageError, Verb


class Bench(Verb):
    """Measure what this machine computes and sends in a second."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("recipe", nargs="?", default="", help="whose network is measured (default: one of our own)")
        _add_common(parser)
        parser.add_argument("-n", "--ranks", type=int, default=0, metavar="N", help="also messages between N processes")
        parser.add_argument("-o", "--output", default="bench.json", metavar="FILE", help="(default: %(default)s)")
        parser.add_argument(
            "--seconds", type=float, default=1.0, help="for each size of minibatches (default: %(default)s)"
        )

    def run(self, options: argparse.Namespace) -> int:
        """Do it and print what was found."""
        from cntk_tool_scaling.bench import BenchRequest, bench

        recipe = _recipe(options)
        words = [*([options.recipe, *options.overrides] if recipe else []), "-n", str(options.ranks)]
        words += ["-o", options.output, "--seconds", str(options.seconds)]
        words += [*(["--section", options.section] if options.section else [])]
        words += [text for path in options.plugin for text in ("--plugin", path)]
        request = BenchRequest(
            recipe, options.section, options.ranks, options.output, options.seconds, tuple(options.plugin), tuple(words)
        )
        return bench(request)


class Simulate(Verb):
    """Show how a recipe's training scales with the number of ranks, over a simulated network."""

    requires_api = "1.0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("recipe", help="whose training is simulated")
        _add_common(parser)
        add = parser.add_argument
        add("-n", "--ranks", type=_integers, required=True, metavar="2,8,64", help="numbers of ranks")
        add(
            "--network",
            default="10GbE",
            help="a name, bandwidth=6GB/s,latency=1us, or a file of cntk bench (%(default)s)",
        )
        add("--ranks-per-host", type=int, default=1, metavar="N", help="neighbouring ranks that share a link")
        add("--local", default="", metavar="NETWORK", help="between the ranks of a host")
        add("--method", default="recipe", help="recipe, full, 1bit, 1bit-buffered, block-momentum, asgd, ... (a list)")
        add(
            "--minibatch-size",
            default="",
            metavar="SIZES",
            help="samples of all ranks together, or 8x the ranks (a list)",
        )
        add("--bench", default="", metavar="FILE", help="what cntk bench measured (default: measured now)")
        add("--samples-per-second", type=float, default=0.0, metavar="RATE", help="that a rank computes")
        add("--compute-per-sample", type=float, default=0.0, metavar="SECONDS", help="the same the other way round")
        add("--jitter", type=float, default=0.0, help="standard deviation of the logarithm of a minibatch's duration")
        add(
            "--slow",
            type=_floats,
            default=(1.0,),
            metavar="1:1:2",
            help="how much slower each rank is; the last for all",
        )
        add("--seed", type=int, default=1, help="of the random durations")
        add(
            "--quantize-rate",
            "--quantise-rate",
            type=float,
            default=0.0,
            metavar="RATE",
            help="values per second that a rank compresses",
        )
        add("--sum-rate", type=float, default=0.0, metavar="RATE", help="bytes per second that a rank adds up")
        add("--mtbf", type=float, default=float("inf"), metavar="HOURS", help="mean time between failures of a rank")
        add("--checkpoint-every", type=float, default=600.0, metavar="SECONDS", help="(default: %(default)g)")
        add("--checkpoint-seconds", type=float, default=0.0, metavar="SECONDS", help="that writing one takes")
        add(
            "--restart-seconds",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="after a failure (default: %(default)g)",
        )
        add("--fail", action="append", default=[], metavar="RANK@SECONDS", help="a rank that fails; may be repeated")
        add("--turns", type=int, default=0, metavar="N", help="exchanges that are measured (default: by the ranks)")
        add("--epoch", type=int, default=0, metavar="N", help="for schedules, from 1 (default: the last)")
        add("--values", type=int, default=0, metavar="N", help="of the models of all ranks together, at most")
        add("--plot", default="", metavar="FILE", help="draw speed-up and efficiency: .svg, .png or .pdf")
        add("-o", "--output", default="", metavar="FILE", help="write the numbers as JSON")

    def run(self, options: argparse.Namespace) -> int:
        """Do it and print what was found."""
        from cntk_tool_scaling.cut import ALL_VALUES
        from cntk_tool_scaling.methods import split_methods
        from cntk_tool_scaling.outcome import Failures
        from cntk_tool_scaling.simulate import SimulateRequest, run_simulation

        if options.compute_per_sample and options.samples_per_second:
            raise UsageError(
                "--compute-per-sample and --samples-per-second are two ways to say the same; give one of them"
            )
        rate = 1 / options.compute_per_sample if options.compute_per_sample else options.samples_per_second
        failures = Failures(
            3600 * options.mtbf, options.checkpoint_every, options.checkpoint_seconds, options.restart_seconds
        )
        return run_simulation(
            SimulateRequest(
                _recipe(options),
                options.ranks,
                options.network,
                options.section,
                tuple(split_methods(options.method)),
                tuple(part for part in options.minibatch_size.split(",") if part),
                options.bench,
                rate,
                options.jitter,
                options.slow,
                options.seed,
                options.quantize_rate,
                options.sum_rate,
                options.ranks_per_host,
                options.local,
                failures,
                tuple(_failure(text) for text in options.fail),
                options.turns,
                options.epoch,
                options.values or ALL_VALUES,
                options.plot,
                options.output,
                tuple(options.plugin),
            )
        )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="values that replace those of the recipe"
    )
    parser.add_argument("--section", help="the command section (default: the first that trains)")


def _recipe(options: argparse.Namespace) -> tuple[str, ...]:
    recipe = str(options.recipe)
    if not recipe:
        return ()
    if not recipe.lower().startswith("configfile="):
        if "=" in recipe:
            raise UsageError(f"'{recipe}' is no recipe", hint=f"cntk {options.verb} recipe.cntk [key=value ...]")
        recipe = f"configFile={recipe}"
    return (recipe, *options.overrides)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(":"))


def _failure(text: str) -> tuple[int, float]:
    rank, _, seconds = text.partition("@")
    try:
        return int(rank), float(seconds)
    except ValueError:
        raise UsageError(f"'{text}' is not of the form RANK@SECONDS") from None
