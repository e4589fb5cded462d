"""Runs a recipe: its commands in order, each with its actions."""

from __future__ import annotations

import errno
import os
import platform
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

import cntk_core
from cntk_core.config import Config, load_recipe
from cntk_core.contract import events
from cntk_core.errors import CntkError, ConfigError
from cntk_core.plugins.addresses import deliver
from cntk_core.plugins.faults import plugins_named
from cntk_core.trust import ask_to_write, check_folder, policy
from cntk_kit_recipes.recipe.actions import TRAIN
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.document import is_document, load_document
from cntk_kit_recipes.recipe.elastic import Work, arrive, min_ranks, persevere, prepare
from cntk_kit_recipes.recipe.jobs import Job, check_jobs, check_top_level, find_jobs
from cntk_kit_recipes.recipe.log import Log, library_warnings
from cntk_kit_recipes.recipe.rank_variables import take_from
from cntk_kit_recipes.recipe.ranks import (
    Launch,
    check_variables,
    comes_late,
    connect,
    detect,
    disconnect,
    label_output,
    note_joined,
    note_process,
    patient,
    share_processors,
)
from cntk_kit_recipes.recipe.run_plugins import make_plugins, recipe_plugins

if TYPE_CHECKING:
    from cntk_core.contract.parallel import Communicator
    from cntk_core.plugins.manager import PluginManager

_WIDTH = 78


def run_recipe(
    arguments: Sequence[str],
    log: Log,
    *,
    only: str | None = None,
    plugin_files: Sequence[str] = (),
    listeners: Sequence[object] = (),
    watchers: Sequence[object] = (),
    program: str = "cntk",
    progress: bool = False,
    communicator: Communicator | None = None,
) -> None:
    """Run what the command line names.

    Args:
        arguments: ``configFile=a+b``, ``key=value``, in the order given; or ``-f recipe.bs`` with its options.
        log: where lines go; a ``stderr=`` of the recipe redirects it.
        only: run only this action, whichever commands have it.
        plugin_files: Python files whose components are registered for this run.
        listeners: objects with implementations of the event hooks; an error in one ends the run.
        watchers: the same, but an error is only reported.
        program: how the program was called, for the log.
        progress: the console is a terminal: show a progress bar there in place of lines about minibatches, and for a
            single action no banner and no configuration either.
        communicator: of the ranks that run it together; by default that of the processes which a launcher has started.

    Raises:
        CntkError: the recipe or the data is wrong, or the run failed. What fails in a plugin is one, too.
    """
    with plugins_named(), library_warnings(log):
        _run_recipe(
            arguments,
            log,
            only=only,
            plugin_files=plugin_files,
            listeners=listeners,
            watchers=watchers,
            program=program,
            progress=progress,
            communicator=communicator,
        )


def _run_recipe(
    arguments: Sequence[str],
    log: Log,
    *,
    only: str | None,
    plugin_files: Sequence[str],
    listeners: Sequence[object],
    watchers: Sequence[object],
    program: str,
    progress: bool,
    communicator: Communicator | None,
) -> None:
    """Do it: see :func:`run_recipe`."""
    plugins: PluginManager | None = None
    if communicator is not None:
        launch = Launch(communicator.rank, communicator.size)
    else:
        take_from(None)
        launch = detect()
        if not launch.by and any(Path(word).suffix == ".py" for word in plugin_files):
            plugins = make_plugins(log, plugin_files, listeners, watchers, recipe=_plugins_told(arguments))
            take_from(plugins.registry)
            launch = detect()
        check_variables()
        label_output(launch)
        note_process(launch)
        share_processors()
    quiet = log.quiet
    is_first = launch.rank == 0 and not comes_late()
    log.quiet = quiet or not is_first
    banner = _banner(program, arguments)
    brief = progress and only is not None
    if not brief:
        log.plain(banner)
    if is_document(arguments):
        plugins = plugins or make_plugins(log, plugin_files, listeners, watchers)
        config = load_document(arguments, plugins, log)
    else:
        config = load_recipe(arguments)
    plugin_files = _from_anywhere(plugin_files, config)
    _enter_directory(config, log)
    _ask_for_files(config)
    config.check_variables()
    log.timestamps = config.boolean("timestamping", False)
    together = launch.size > 1 and config.boolean("parallelTrain", True)
    if not is_first and not together:
        return  # several processes were started for a serial run: the first one does it
    _redirect(config, log, banner, launch.rank, together=together, is_first=is_first)
    check_top_level(config)
    wishes = recipe_plugins(config)
    if plugins is None:
        plugins = make_plugins(log, plugin_files, listeners, watchers, recipe=wishes)
    else:
        plugins.obey(wishes)
    jobs = find_jobs(config, plugins.registry, only)
    if together and communicator is None:
        communicator = connect(launch, plugins.registry, config.string("communicator", ""))
    context = ActionContext.create(
        config, log, plugins=plugins, progress=progress, communicator=communicator if together else None
    )
    least, first = min_ranks(jobs), 0
    if context.communicator is not None:
        context.communicator.watch.say = log.warn
        if least:
            prepare(context.communicator, least)
            note_joined(launch)
    if not brief or log.to_file:
        _print_configuration(context, jobs)
    context.check_device()
    check_jobs(context, jobs)
    _check_done_file(context)
    if communicator is not None and communicator.has_joined:
        context, first = arrive(context, launch.rank)
    context = _run(context, jobs, least, quiet=quiet, first=first)
    if context.rank == 0:
        _finish(context)
        deliver()
    disconnect(context.rank)


def _plugins_told(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return what a recipe says of plugins; what is wrong with it is told when it is read for the run."""
    if is_document(arguments):
        return ()
    try:
        return recipe_plugins(load_recipe(arguments))
    except (CntkError, OSError):
        return ()


def _from_anywhere(plugin_files: Sequence[str], config: Config) -> Sequence[str]:
    """Return the plugin files as they are found from the folder that a recipe enters, too."""
    if config.current_directory is None:
        return plugin_files
    return [str(Path(word).resolve()) if Path(word).is_file() else word for word in plugin_files]


def _banner(program: str, arguments: Sequence[str]) -> str:
    version = f"cntk-core {cntk_core.__version__}, Python {platform.python_version()}"
    where = f"{socket.gethostname()} at {_now()}"
    return f"CNTK 2.0+ ({version}) on {where}\n\n{'  '.join([program, *arguments])}"


def _now() -> str:
    return time.strftime("%Y/%m/%d %H:%M:%S")


def _enter_directory(config: Config, log: Log) -> None:
    directory = config.current_directory
    if directory is None:
        return
    try:
        os.chdir(directory)
    except OSError as error:
        raise ConfigError(
            f"currentDirectory '{directory}' cannot be entered: {error.strerror}",
            where=config.location("currentDirectory"),
        ) from None
    log.plain(f"Changed current directory to {directory}")


def _ask_for_files(config: Config) -> None:
    """Make sure that what the top level names may be written: the log at once, the mark of completion at the end."""
    if policy() is None:
        return
    check_folder(Path())
    for key in ("stderr", "doneFile"):
        value = config.get(key)
        if value is not None and value.string() not in ("", "-"):
            ask_to_write(value.string(), key=key, where=value.where)


def _redirect(config: Config, log: Log, banner: str, rank: int, *, together: bool, is_first: bool) -> None:
    value, path = config.get("stderr"), _log_path(config, log, rank, together=together, is_first=is_first)
    if value is not None and path is not None:
        log.redirect(path, value.where)
        log.plain(banner)


def _log_path(config: Config, log: Log, rank: int, *, together: bool, is_first: bool) -> str | None:
    """Return where the log of a rank goes; None for the console. The first one's is that of the run."""
    value = config.get("stderr")
    if value is None or value.string() in ("", "-"):
        return None
    path = value.string()
    if log.timestamps:  # the original does so on its compute cluster
        path += "".join(f"_{command}" for command in config.strings("command", ("train",))) + ".log"
        path += f"rank{rank}" if together else ""
    elif not is_first:
        path += f".rank{rank}"
    return path


def _print_configuration(context: ActionContext, jobs: Sequence[Job]) -> None:
    config, log = context.config, context.log
    for warning in config.warnings:
        log.line(f"WARNING: {warning}")
    if config.boolean("profilerEnabled", False):
        log.line(
            "profilerEnabled has no effect here: 'cntk explain RECIPE --time' shows where the time of a step goes."
        )
    if context.trace <= 0:
        return
    log.plain("\nConfiguration After Processing and Variable Resolution:\n")
    log.plain(config.dump(resolved=True).rstrip("\n"))
    log.line(f"Commands: {' '.join(dict.fromkeys(job.command for job in jobs))}")
    log.line(f'precision = "{config.string("precision", "float")}"')


def _run(context: ActionContext, jobs: Sequence[Job], least: int, *, quiet: bool, first: int = 0) -> ActionContext:
    """Run all jobs from the ``first`` one on; return the context of the ranks that are left in the end."""
    trace_progress = context.config.boolean("progressTracing", False)
    epochs = {
        job: job.section.section("SGD").integer("maxEpochs")
        for job in jobs
        if trace_progress and job.action.name == TRAIN
    }
    for job, count in epochs.items():
        context.log.line(f"CNTKModelPath: {job.section.string('modelPath')}")
        context.log.line(f"CNTKCommandTrainInfo: {job.command} : {count}")
    if trace_progress:
        context.log.line(f"CNTKCommandTrainInfo: CNTKNoMoreCommands_Total : {sum(epochs.values())}")
    for index, job in enumerate(jobs):
        if index < first:
            continue
        _print_title(context.log, f"{job.command} command ({job.name} action)")
        if job in epochs:
            context.log.line(f"CNTKCommandTrainBegin: {job.command}")

        def act(now: ActionContext, job: Job = job) -> None:
            if job.action.on_all_ranks or now.rank == 0:
                _run_job(now, job)

        def meet(now: ActionContext, job: Job = job) -> None:
            _meet(now, job)

        context = persevere(context, Work(job, index, act, meet, lambda now: _take_over(now, quiet=quiet)), least)
        context.say_unread()
        if job in epochs:
            context.log.line(f"CNTKCommandTrainEnd: {job.command}")
        context.log.plain()
        if job.section.integer("traceLevel", 0) > 0:
            context.log.line(f'Action "{job.name}" complete.\n')
    return context


def _take_over(context: ActionContext, *, quiet: bool) -> None:
    """After a loss, the rank that is the first one now writes the log: it goes on in the file of the one before."""
    if context.rank:
        return
    context.log.quiet = quiet
    path = _log_path(context.config, context.log, 0, together=True, is_first=True)
    if path is not None:
        context.log.go_on(path)


def _meet(context: ActionContext, job: Job) -> None:
    """Wait until all ranks have done a job: the next one may need its files."""
    communicator = context.communicator
    if communicator is not None:
        communicator.watch.doing = f"the end of '{job.command}'"
        with patient(communicator):
            communicator.barrier()


def _run_job(context: ActionContext, job: Job) -> None:
    """Run a job. Training tells the listeners of itself, with its network; here they hear of the other actions."""
    context.plugins.registry.asked.begin()
    if job.action.announces_itself:
        job.action.run(context, job.section)
        return
    action = job.action.name or job.name
    told = events.Job(
        job.command, action, _engine_of(context, job), rank=context.rank, ranks=context.ranks, block=job.section
    )
    for listener in context.hooks.listeners("cntk_job_begin"):
        listener(job=told)
    begun = time.perf_counter()
    error: BaseException | None = None
    try:
        job.action.run(attrs.evolve(context, job=told), job.section)
    except BaseException as failure:
        error = failure
        for listener in context.hooks.listeners("cntk_exception"):
            listener(job=told, error=error)
        raise
    finally:
        outcome = events.JobOutcome(error is None, seconds=time.perf_counter() - begun, error=error)
        for listener in context.hooks.listeners("cntk_job_end"):
            listener(job=told, outcome=outcome)


def _engine_of(context: ActionContext, job: Job) -> str:
    """The name of the engine that an action computes with; empty for one that needs none."""
    if not job.action.needs_engine:
        return ""
    try:
        return context.engine_name(job.section)
    except CntkError:
        return ""  # the action says what is wrong


def _print_title(log: Log, text: str) -> None:
    log.plain()
    log.line("#" * _WIDTH)
    log.line(f"#{'':{_WIDTH - 2}}#")
    log.line(f"# {text:{_WIDTH - 4}} #")
    log.line(f"#{'':{_WIDTH - 2}}#")
    log.line("#" * _WIDTH)
    log.plain()


def _check_done_file(context: ActionContext) -> None:
    """Find out before the work, not behind it, that its mark of completion cannot be written."""
    done = context.config.string("doneFile", "")
    if not done:
        return
    path = Path(done)
    nearest = next(each for each in (path, *path.parents) if each.exists())  # of a relative path, the last one is "."
    wrong = 0 if os.access(nearest, os.W_OK) else errno.EACCES
    if nearest == path and path.is_dir():
        wrong = errno.EISDIR
    elif nearest != path and not nearest.is_dir():
        wrong = errno.ENOTDIR
    if wrong:
        raise _no_done_file(context, os.strerror(wrong))


def _no_done_file(context: ActionContext, reason: str) -> ConfigError:
    done = context.config.string("doneFile", "")
    where = context.config.location("doneFile")
    return ConfigError(f"the doneFile '{done}' cannot be written: {reason}", where=where)


def _finish(context: ActionContext) -> None:
    done = context.config.string("doneFile", "")
    if done:
        path = Path(done)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"Successfully finished at {_now()} on {socket.gethostname()}\n", encoding="utf-8")
        except OSError as error:
            raise _no_done_file(context, str(error.strerror)) from None
    if context.log.timestamps or context.trace > 0:
        context.log.line("__COMPLETED__")
    context.log.console("COMPLETED.")
