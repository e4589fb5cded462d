"""The words of the command: its verbs and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from cntk_core import __version__
from cntk_core.actions.datasets.verb import add_data
from cntk_core.actions.scaling.verbs import add_bench, add_simulate
from cntk_core.cli.verbs import (
    run_action,
    run_check_config,
    run_check_data,
    run_convert,
    run_convert_data,
    run_demo,
    run_doctor,
    run_dump,
    run_edit,
    run_explain,
    run_plot,
    run_plot_log,
    run_plugins,
    run_show_config,
)

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

Handler = Callable[[argparse.Namespace], int]

VERBS = {
    "train": "run the train actions of a recipe",
    "test": "run the test actions of a recipe",
    "write": "run the write actions of a recipe",
    "edit": "change models: with a script (.mel), with commands, or as a recipe's edit actions say",
    "check-data": "report everything that is wrong with the data files of a recipe",
    "config": "show what a recipe says once everything is put together, or check it",
    "plot": "draw the network of a model or of a recipe",
    "plot-log": "draw the learning curves of one or several runs, from their logs",
    "dump": "print the nodes of a model and their values",
    "convert": "read a model, also one of the original CNTK, and write it as a model file of this program",
    "convert-data": "write what a recipe reads as a file in CNTK's binary format",
    "data": "write files that recipes read from a data set that you downloaded: mnist, cifar10",
    "explain": "show how a recipe's network is computed, and how memory is shared",
    "bench": "measure what this machine computes and sends in a second",
    "simulate": "show how a recipe's training scales with the number of ranks, over a simulated network",
    "plugins": "list, make and check plugins",
    "doctor": "say what works on this machine, and what mends the rest",
    "demo": "train on real handwritten digits and show how",
}
"""The verbs and what they do."""


def make_parser() -> tuple[argparse.ArgumentParser, Verbs]:
    """Return the parser of the command line, and that of its verbs, to which plugins add theirs."""
    parser = argparse.ArgumentParser(
        prog="cntk",
        description="Runs CNTK recipes; every part is a plugin.",
        epilog="As with CNTK: cntk configFile=recipe.cntk key=value section=[key=value] ..., "
        'or cntk -f recipe.bs [-D "name = value"] [-I folder] [--cd folder]',
    )
    parser.add_argument("--version", action="version", version=f"cntk-core {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb")
    for verb in ("train", "test", "write"):
        run = verbs.add_parser(verb, help=VERBS[verb], description=_sentence(verb))
        _add_recipe(run, run_action)
        if verb != "write":
            run.add_argument("-n", "--ranks", type=int, metavar="N", help="start N ranks that do it together")
            run.add_argument("--elastic", action="store_true", help="when ranks are lost, the others go on")
            run.add_argument("--min-ranks", type=int, metavar="N", help="ranks that must be left; by default 1")
    _add_edit(verbs.add_parser("edit", help=VERBS["edit"], description=_sentence("edit")))
    _add_sections(verbs.add_parser("check-data", help=VERBS["check-data"], description=_sentence("check-data")))
    _add_config(verbs.add_parser("config", help=VERBS["config"], description=_sentence("config")))
    _add_plot(verbs.add_parser("plot", help=VERBS["plot"], description=_sentence("plot")))
    _add_plot_log(verbs.add_parser("plot-log", help=VERBS["plot-log"], description=_sentence("plot-log")))
    _add_dump(verbs.add_parser("dump", help=VERBS["dump"], description=_sentence("dump")))
    _add_convert(verbs.add_parser("convert", help=VERBS["convert"], description=_sentence("convert")))
    _add_convert_data(
        verbs.add_parser("convert-data", help=VERBS["convert-data"], description=_sentence("convert-data"))
    )
    add_data(verbs.add_parser("data", help=VERBS["data"], description=_sentence("data")))
    explain = verbs.add_parser("explain", help=VERBS["explain"], description=_sentence("explain"))
    _add_recipe(explain, run_explain)
    explain.add_argument("--section", help="only this command section")
    explain.add_argument("--frames", type=int, default=0, help="rows of a minibatch (default: the recipe's)")
    add_bench(verbs.add_parser("bench", help=VERBS["bench"], description=_sentence("bench")))
    add_simulate(verbs.add_parser("simulate", help=VERBS["simulate"], description=_sentence("simulate")))
    _add_plugins(verbs.add_parser("plugins", help=VERBS["plugins"], description=_sentence("plugins")))
    doctor = verbs.add_parser("doctor", help=VERBS["doctor"], description=_sentence("doctor"))
    _add_plugin_option(doctor)
    doctor.set_defaults(run=run_doctor)
    demo = verbs.add_parser("demo", help=VERBS["demo"], description=_sentence("demo"))
    demo.add_argument("--folder", default="demo", help="where recipe, data and results go (default: ./demo)")
    demo.set_defaults(run=run_demo)
    return parser, verbs


def _sentence(verb: str) -> str:
    text = VERBS[verb]
    return f"{text[0].upper()}{text[1:]}."


def _add_recipe(parser: argparse.ArgumentParser, run: Handler) -> None:
    parser.add_argument("recipe", help="file with the recipe, or several joined with +")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="values that replace those of the recipe"
    )
    _add_plugin_option(parser)
    parser.set_defaults(run=run)


def _add_edit(parser: argparse.ArgumentParser) -> None:
    _add_recipe(parser, run_edit)
    parser.usage = (
        "cntk edit script.mel [key=value ...]\n"
        '       cntk edit model.dnn -c "Command(...)" [-c ...] [-s script.mel] -o edited.dnn\n'
        "       cntk edit recipe.cntk [key=value ...]"
    )
    parser.add_argument(
        "-c", "--command", dest="commands", action="append", default=[], help="a command for the model; may be repeated"
    )
    parser.add_argument("-s", "--script", metavar="FILE", help="a script for the model; runs before the commands")
    parser.add_argument("-o", "--output", metavar="FILE", help="where the edited model is saved")


def _add_sections(parser: argparse.ArgumentParser) -> None:
    _add_recipe(parser, run_check_data)
    parser.add_argument("--section", help="only this command section")


def _add_config(parser: argparse.ArgumentParser) -> None:
    tasks = parser.add_subparsers(metavar="TASK", dest="task", required=True)
    show = tasks.add_parser("show", help="print the effective configuration, and where each value comes from")
    _add_recipe(show, run_show_config)
    show.add_argument("--section", help="only this section, such as Train or Train:SGD")
    show.add_argument("--resolved", action="store_true", help="with $variables$ filled in")
    show.add_argument("--given", action="store_true", help="without the values that the recipe leaves to the program")
    check = tasks.add_parser("check", help="report everything that is wrong with a recipe, without running it")
    _add_recipe(check, run_check_config)


def _add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a model file, or a recipe that describes a network")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="values that replace those of the recipe"
    )
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help="net.svg or net.dot (default: MODEL.svg here; - is stdout)"
    )
    parser.add_argument("--section", help="the command section of a recipe (default: the first with a network)")
    _add_plugin_option(parser)
    parser.set_defaults(run=run_plot)


def _add_plot_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="[NAME=]LOG", help="what jsonLog=... or stderr=... has written")
    parser.add_argument(
        "-o",
        "--output",
        default="learning-curves.svg",
        metavar="FILE",
        help=".svg, .png or .pdf (default: %(default)s)",
    )
    parser.add_argument("--criterion", action="append", default=[], metavar="NAME", help="only this; may be repeated")
    parser.add_argument("--section", default="", metavar="COMMAND", help="only trainings of this command")
    parser.add_argument("--log-scale", action="store_true", help="criteria on a logarithmic scale")
    parser.add_argument("--minibatches", action="store_true", help="also what was shown within the epochs")
    parser.set_defaults(run=run_plot_log)


def _add_dump(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file")
    parser.add_argument("--node", default="", metavar="REGEX", help="only nodes whose whole name matches")
    parser.add_argument(
        "--values", action=argparse.BooleanOptionalAction, default=True, help="the values of parameters (default: yes)"
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="the file (default: standard output)")
    _add_plugin_option(parser)
    parser.set_defaults(run=run_dump)


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new model file")
    parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the model")
    _add_plugin_option(parser)
    parser.set_defaults(run=run_convert)


def _add_convert_data(parser: argparse.ArgumentParser) -> None:
    _add_recipe(parser, run_convert_data)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new file")
    parser.add_argument("--section", help="the command section (default: the first that reads data)")
    parser.add_argument("--key", choices=("reader", "cvReader"), default="reader", help="the block (default: reader)")
    parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the recipe")
    parser.add_argument("--chunk-size", type=int, default=0, metavar="BYTES", help="a chunk is about this large")


def _add_plugin_option(parser: argparse.ArgumentParser, name: str = "plugin") -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        dest=name,
        help="Python file with components; may be repeated",
    )


def _add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_plugins, task="list")
    _add_plugin_option(parser)
    tasks = parser.add_subparsers(metavar="TASK", dest="task")
    table = tasks.add_parser("list", help="a table of what is there and why something is not usable (default)")
    table.add_argument("--names", action="store_true", help="only the names that wheels claim; load nothing")
    _add_plugin_option(table, "plugin_after")
    new = tasks.add_parser("new", help="write a complete small wheel with its contract test")
    new.add_argument("kind", help="reader, writer, learner, op, engine, ...; another word lists all")
    new.add_argument("name", help="the word that a recipe will write")
    new.add_argument("--folder", default=".", help="where the wheel's folder goes (default: here)")
    check = tasks.add_parser("check", help="load a plugin and check it against its interface")
    check.add_argument("name", help="its name, or KIND:NAME, or a wheel")
    _add_plugin_option(check, "plugin_after")
