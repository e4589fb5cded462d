"""The command ``cntk``: it parses, calls an action and prints. Everything heavy is imported where it is used.

Two ways to speak to it: ``cntk configFile=recipe.cntk key=value ...`` exactly as CNTK, and verbs
(``cntk train recipe.cntk``). Exit codes: 0 done, 1 the user's mistake or a failed run, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cntk_core import __version__
from cntk_core.actions.datasets.verb import add_data
from cntk_core.errors import CntkError, UsageError, did_you_mean

if TYPE_CHECKING:
    from cntk_core.actions.log import Log

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

USAGE = """\
-------------------------------------------------------------------
Usage: cntk configFile=yourConfigFile [key=value ...]
   or: cntk -f recipe.bs [-D "name = value"] [-I folder] [--cd folder]
   or: cntk train|test|write yourConfigFile [key=value ...]
   or: cntk demo        trains on real handwritten digits and shows how
   or: cntk --help      lists everything
-------------------------------------------------------------------"""

TRACEBACK = "CNTK_TRACEBACK"
"""Set this variable to 1 to see the Python traceback of an error."""

_INTERRUPTED = 130
_PATIENCE = 2.0
"""Seconds that a rank gives rank 0 to tell an error that both have."""
_DOCUMENT_OPTIONS = ("-f", "--file", "-I", "-D", "--cd")

Handler = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        _say("\ninterrupted: what was saved before is kept; start the same command again to go on from there")
        _end_ranks("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone away; a second attempt to flush must not complain about it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end_ranks("the reader of the output has gone away")
        return 1
    except BaseException as error:
        # Whatever it is (told to exit, or a traceback is wanted), other ranks must not wait for this one.
        _end_ranks(f"{type(error).__name__}: {error}")
        raise


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        _say("No command-line argument given.")
        _say(USAGE)
        return 1
    first = arguments[0]
    if first in _DOCUMENT_OPTIONS:
        return _run_as_cntk(arguments)
    if first not in VERBS and any("=" in argument for argument in arguments) and first not in ("-h", "--help"):
        return _run_as_cntk(arguments)
    return _run_verb(arguments)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- as CNTK ----------------------------------------------------------------------------------------------


def _run_as_cntk(arguments: list[str]) -> int:
    from cntk_core.actions.driver import run_recipe
    from cntk_core.actions.log import Log

    log = Log()
    try:
        run_recipe(arguments, log, program=_program(), progress=sys.stderr.isatty())
    except BrokenPipeError:
        raise
    except (CntkError, OSError, MemoryError, Exception) as error:
        return _report_as_cntk(error, log)
    finally:
        log.close()
    return 0


def _program() -> str:
    """How the program was called; tests and ``python -m cntk_core`` call it otherwise than people do."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name if name.startswith("cntk") else "cntk"


def _report_as_cntk(error: Exception, log: Log) -> int:
    if os.environ.get(TRACEBACK) == "1":
        raise error
    text = f"EXCEPTION occurred: {_text_of(error)}"
    log.plain()
    log.line(text)
    if log.to_file:
        log.console(text)
    _end_ranks(text)
    return error.exit_code if isinstance(error, CntkError) else 1


def _is_main_rank() -> bool:
    from cntk_core.actions.ranks import detect

    return detect().rank == 0


def _end_ranks(text: str) -> None:
    """End the other ranks of this run, if there are any.

    What all ranks find wrong, such as a mistake in the recipe, rank 0 tells; the others give it the time to do so.
    """
    from cntk_core.actions.ranks import detect, end_all

    launch = detect()
    if launch.size == 1:
        return
    if launch.rank:
        time.sleep(_PATIENCE)
        _say(text)
    defect, details = sys.exc_info()[1], ""
    if defect is not None and not isinstance(defect, CntkError | KeyboardInterrupt | SystemExit):
        import traceback

        details = traceback.format_exc()
        if os.environ.get(TRACEBACK) == "1":
            _say(details.rstrip())
    end_all(text, details)


def _text_of(error: Exception) -> str:
    if isinstance(error, CntkError):
        return str(error)
    if isinstance(error, OSError):
        name = f"'{error.filename}': " if error.filename else ""
        return f"{name}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error}" if str(error) else "there is not enough memory"
    return (
        f"this is a defect of the program: {type(error).__name__}: {error}\n"
        f"    Please report it with what {TRACEBACK}=1 shows."
    )


# -- verbs ------------------------------------------------------------------------------------------------


def _guarded(step: Callable[[], int]) -> int:
    """Run a step and turn its errors into one message."""
    try:
        return step()
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK) == "1":
            raise
        text = f"error: {_text_of(error)}"
        if _is_main_rank():
            _say(text)
        _end_ranks(text)
        return error.exit_code if isinstance(error, CntkError) else 1


def _run_verb(arguments: list[str]) -> int:
    parser, verbs = _parser()
    if not arguments[0].startswith("-") and arguments[0] not in VERBS:
        _add_plugin_verbs(parser, verbs, arguments[0])
    options, rest = parser.parse_known_args(arguments)
    overrides = getattr(options, "overrides", None)
    wrong = [text for text in rest if overrides is None or text.startswith("-") or "=" not in text]
    if wrong:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if overrides is not None:
        options.overrides = [*overrides, *rest]
        odd = [text for text in options.overrides if "=" not in text]
        if odd:
            parser.error(f"'{odd[0]}' is not of the form key=value")
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    return _guarded(lambda: int(options.run(options) or 0))


def _add_plugin_verbs(parser: argparse.ArgumentParser, verbs: Verbs, wanted: str) -> None:
    """Ask the plugins for further verbs; only a word that is none of ours leads here."""
    from cntk_core.actions.plugins import add_commands

    add_commands(verbs)
    if wanted not in verbs.choices:
        parser.error(f"there is no verb '{wanted}'{did_you_mean(wanted, verbs.choices)}; see cntk --help")


def _run_action(options: argparse.Namespace) -> int:
    if getattr(options, "ranks", None) is not None:
        from cntk_core.actions.launch import launch

        plugins = [text for path in options.plugin for text in ("--plugin", path)]
        return launch(options.ranks, [options.verb, options.recipe, *options.overrides, *plugins], options.plugin)
    from cntk_core.actions.driver import run_recipe
    from cntk_core.actions.log import Log

    log = Log()
    try:
        run_recipe(
            _recipe_arguments(options),
            log,
            only=options.verb,
            plugin_files=options.plugin,
            program=_program(),
            progress=sys.stderr.isatty(),
        )
    finally:
        log.close()
    return 0


def _recipe_arguments(options: argparse.Namespace) -> list[str]:
    recipe = str(options.recipe)
    if not recipe.lower().startswith("configfile="):
        if "=" in recipe:
            raise UsageError(f"'{recipe}' is no recipe", hint=f"cntk {options.verb} recipe.cntk [key=value ...]")
        recipe = f"configFile={recipe}"
    return [recipe, *options.overrides]


def _edit(options: argparse.Namespace) -> int:
    from cntk_core.actions.edit_verb import edit_model, edit_with_script, is_script

    if options.commands or options.script or options.output:
        return edit_model(
            options.recipe,
            options.overrides,
            script=options.script,
            commands=options.commands,
            output=options.output,
            plugin_files=options.plugin,
        )
    if is_script(options.recipe):
        return edit_with_script(options.recipe, options.overrides, plugin_files=options.plugin)
    return _run_action(options)


def _check_data(options: argparse.Namespace) -> int:
    from cntk_core.actions.check_data import check_data

    return check_data(_recipe_arguments(options), section=options.section, plugin_files=options.plugin)


def _explain(options: argparse.Namespace) -> int:
    from cntk_core.actions.explain import explain_recipe

    return explain_recipe(
        _recipe_arguments(options), section=options.section, frames=options.frames, plugin_files=options.plugin
    )


def _plot(options: argparse.Namespace) -> int:
    from cntk_core.actions.show_model import plot

    return plot(
        options.source,
        options.overrides,
        output=options.output,
        section=options.section,
        plugin_files=options.plugin,
    )


def _plot_log(options: argparse.Namespace) -> int:
    from cntk_core.actions.seeing.plot_log import plot_log

    return plot_log(
        options.logs,
        output=options.output,
        criteria=options.criterion,
        section=options.section,
        logarithmic=options.log_scale,
        minibatches=options.minibatches,
    )


def _dump(options: argparse.Namespace) -> int:
    from cntk_core.actions.show_model import dump_model

    return dump_model(
        options.model,
        pattern=options.node,
        values=options.values,
        output=options.output,
        plugin_files=options.plugin,
    )


def _convert(options: argparse.Namespace) -> int:
    from cntk_core.actions.convert_model import convert_model

    return convert_model(options.model, options.output, precision=options.precision, plugin_files=options.plugin)


def _convert_data(options: argparse.Namespace) -> int:
    from cntk_core.actions.convert_data import convert_data

    return convert_data(
        _recipe_arguments(options),
        output=options.output,
        section=options.section,
        key=options.key,
        precision=options.precision,
        chunk_bytes=options.chunk_size,
        plugin_files=options.plugin,
    )


def _show_config(options: argparse.Namespace) -> int:
    from cntk_core.actions.show_config import show_config

    return show_config(
        _recipe_arguments(options),
        section=options.section,
        resolved=options.resolved,
        defaults=not options.given,
        plugin_files=options.plugin,
    )


def _check_config(options: argparse.Namespace) -> int:
    from cntk_core.actions.show_config import check_config

    return check_config(_recipe_arguments(options), plugin_files=options.plugin)


def _plugins(options: argparse.Namespace) -> int:
    from cntk_core.actions.plugins import run

    return run(options)


def _demo(options: argparse.Namespace) -> int:
    from cntk_core.actions.demo import run_demo

    return run_demo(options.folder)


def _doctor(options: argparse.Namespace) -> int:
    from cntk_core.actions.doctor import doctor

    return doctor(plugin_files=options.plugin)


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
    "plugins": "list, make and check plugins",
    "doctor": "say what works on this machine, and what mends the rest",
    "demo": "train on real handwritten digits and show how",
}
"""The verbs and what they do."""


def _parser() -> tuple[argparse.ArgumentParser, Verbs]:
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
        _add_recipe(run, _run_action)
        if verb != "write":
            run.add_argument("-n", "--ranks", type=int, metavar="N", help="start N ranks that do it together")
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
    _add_recipe(explain, _explain)
    explain.add_argument("--section", help="only this command section")
    explain.add_argument("--frames", type=int, default=0, help="rows of a minibatch (default: the recipe's)")
    _add_plugins(verbs.add_parser("plugins", help=VERBS["plugins"], description=_sentence("plugins")))
    doctor = verbs.add_parser("doctor", help=VERBS["doctor"], description=_sentence("doctor"))
    _add_plugin_option(doctor)
    doctor.set_defaults(run=_doctor)
    demo = verbs.add_parser("demo", help=VERBS["demo"], description=_sentence("demo"))
    demo.add_argument("--folder", default="demo", help="where recipe, data and results go (default: ./demo)")
    demo.set_defaults(run=_demo)
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
    _add_recipe(parser, _edit)
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
    _add_recipe(parser, _check_data)
    parser.add_argument("--section", help="only this command section")


def _add_config(parser: argparse.ArgumentParser) -> None:
    tasks = parser.add_subparsers(metavar="TASK", dest="task", required=True)
    show = tasks.add_parser("show", help="print the effective configuration, and where each value comes from")
    _add_recipe(show, _show_config)
    show.add_argument("--section", help="only this section, such as Train or Train:SGD")
    show.add_argument("--resolved", action="store_true", help="with $variables$ filled in")
    show.add_argument("--given", action="store_true", help="without the values that the recipe leaves to the program")
    check = tasks.add_parser("check", help="report everything that is wrong with a recipe, without running it")
    _add_recipe(check, _check_config)


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
    parser.set_defaults(run=_plot)


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
    parser.set_defaults(run=_plot_log)


def _add_dump(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file")
    parser.add_argument("--node", default="", metavar="REGEX", help="only nodes whose whole name matches")
    parser.add_argument(
        "--values", action=argparse.BooleanOptionalAction, default=True, help="the values of parameters (default: yes)"
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="the file (default: standard output)")
    _add_plugin_option(parser)
    parser.set_defaults(run=_dump)


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new model file")
    parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the model")
    _add_plugin_option(parser)
    parser.set_defaults(run=_convert)


def _add_convert_data(parser: argparse.ArgumentParser) -> None:
    _add_recipe(parser, _convert_data)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the new file")
    parser.add_argument("--section", help="the command section (default: the first that reads data)")
    parser.add_argument("--key", choices=("reader", "cvReader"), default="reader", help="the block (default: reader)")
    parser.add_argument("--precision", choices=("float", "double"), default="", help="default: that of the recipe")
    parser.add_argument("--chunk-size", type=int, default=0, metavar="BYTES", help="a chunk is about this large")


def _add_plugin_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE", help="Python file with components; may be repeated"
    )


def _add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_plugins, task="list")
    _add_plugin_option(parser)
    tasks = parser.add_subparsers(metavar="TASK", dest="task")
    table = tasks.add_parser("list", help="a table of what is there and why something is not usable (default)")
    table.add_argument("--names", action="store_true", help="only the names that wheels claim; load nothing")
    new = tasks.add_parser("new", help="write a complete small wheel with its contract test")
    new.add_argument("kind", help="engine, op, builder, reader, learner, parallelizer or hook")
    new.add_argument("name", help="the word that a recipe will write")
    new.add_argument("--folder", default=".", help="where the wheel's folder goes (default: here)")
    check = tasks.add_parser("check", help="load a plugin and check it against its interface")
    check.add_argument("name", help="its name, or KIND:NAME, or a wheel")
