"""PythonNetworkBuilder: a recipe names a Python function, which builds the network."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cntk_builder_python.graph import Graph
from cntk_core.api import (
    BuildContext,
    BuildError,
    CntkError,
    Config,
    Location,
    Network,
    NetworkBuilder,
    Value,
    ask_to_load,
    did_you_mean,
    option,
    options,
)


@options
class PythonBuilderOptions:
    """Keys of the block ``PythonNetworkBuilder=[...]``."""

    file: str = option(default="", doc="Python file with the function; relative to the working directory")
    module: str = option(default="", doc="importable module with the function, instead of a file")
    function: str = option(default="build", doc="name of the function; it is called with a Graph")


class PythonNetworkBuilder(NetworkBuilder):
    """Calls ``function(graph, **arguments)`` of a file or module.

    The function adds nodes to the graph and marks criterion, evaluation and output. The values of the sub-block
    ``arguments=[...]`` are passed on: numbers and truth values as such, the rest as text.
    """

    options = PythonBuilderOptions
    requires_api = "1.0"
    block_is_section = True

    def build(self, block: Value, context: BuildContext) -> Network:
        """Build the network.

        Raises:
            BuildError: the function cannot be found, does not take the arguments, or raises an exception.
            Problems, NetworkError: what it builds is wrong.
        """
        config = block.config()
        settings = config.bind(PythonBuilderOptions, ignore=("arguments",), what="PythonNetworkBuilder")
        arguments = _arguments(config.section("arguments")) if config.own("arguments") is not None else {}
        function = _find_function(_load(settings, config, context.directory), settings, config)
        graph = Graph(
            context.dtype, find_op=context.find_op, seed=context.random_seed, make_initializer=context.make_initializer
        )
        _call(function, graph, arguments, config)
        if not any(graph.network.roots[role] for role in ("criterion", "evaluation", "output")):
            raise BuildError(
                f"the function '{settings.function}' marked no criterion, evaluation or output",
                where=config.where,
                hint="Call graph.criterion(term), graph.evaluation(term) or graph.output(term).",
            )
        graph.infer()
        return graph.network


def _arguments(block: Config) -> dict[str, Any]:
    return {key: _plain(block.string(key)) for key in block.keys()}  # noqa: SIM118  (a Config is no mapping)


def _plain(text: str) -> Any:
    """Read a number or truth value; anything else stays text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _load(settings: PythonBuilderOptions, config: Config, directory: Path) -> ModuleType:
    if bool(settings.file) == bool(settings.module):
        raise BuildError(
            "PythonNetworkBuilder needs either 'file' or 'module'",
            where=config.where,
            hint='Write PythonNetworkBuilder=[ file="net.py" ; function=build ].',
        )
    key = "module" if settings.module else "file"
    ask_to_load(settings.module or settings.file, key=key, where=config.location(key))
    if settings.module:
        try:
            return importlib.import_module(settings.module)
        except ModuleNotFoundError as error:
            raise BuildError(str(error), where=config.location("module")) from error
    path = directory / settings.file
    if not path.is_file():
        raise BuildError(f"there is no Python file '{settings.file}'", where=config.location("file"))
    spec = importlib.util.spec_from_file_location(f"cntk_network_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = Location(settings.file, error.lineno or 0, error.offset or 0)
        raise BuildError(f"{type(error).__name__}: {error.msg}", where=where) from None
    except CntkError:
        raise
    except Exception as error:
        raise _explained(error, settings.file, path) from error
    return module


def _find_function(module: ModuleType, settings: PythonBuilderOptions, config: Config) -> Callable[..., object]:
    function = getattr(module, settings.function, None)
    if callable(function):
        return function  # type: ignore[no-any-return]
    names = [name for name, value in vars(module).items() if inspect.isfunction(value)]
    raise BuildError(
        f"'{settings.file or settings.module}' has no function '{settings.function}'"
        f"{did_you_mean(settings.function, names)}",
        where=config.location("function"),
    )


def _call(function: Callable[..., object], graph: Graph, arguments: dict[str, Any], config: Config) -> None:
    try:
        inspect.signature(function).bind(graph, **arguments)
    except TypeError as error:
        raise BuildError(
            f"the function '{function.__name__}' does not take these arguments: {error}",
            where=config.location("arguments"),
            hint=f"It is {function.__name__}{inspect.signature(function)}.",
        ) from None
    try:
        function(graph, **arguments)
    except CntkError:
        raise
    except Exception as error:
        file = inspect.getsourcefile(function) or function.__name__
        raise _explained(error, file, Path(file)) from error


def _explained(error: Exception, shown: str, path: Path) -> BuildError:
    """An exception of the user's file as an error with the innermost line of that file."""
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if Path(frame.filename) == path]
    line = frames[-1].lineno if frames else None
    return BuildError(f"{type(error).__name__}: {error}", where=Location(shown, line or 0))
