"""What ``cntk weights`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from cntk_core.api import DataError, UsageError
from cntk_core.api.builders import is_weights_file, open_weights
from cntk_core.api.recipes import ModelFiles, PluginManager
from cntk_model_weights.exchange import load_weights, save_weights

T = TypeVar("T")


def run(options: argparse.Namespace) -> int:
    """List, write or take weights; return the exit code.

    Raises:
        UsageError: options do not belong together.
        CntkError: a file cannot be read or written, or weights do not fit.
    """
    files = ModelFiles(PluginManager(options.plugin).registry)
    if options.weights:
        _take(options, files)
    elif options.name or options.partial:
        raise UsageError("--name and --partial say how the weights of --from are taken, and there is no --from")
    elif options.output:
        _write(options, files)
    else:
        _list(options, files)
    return 0


def _take(options: argparse.Namespace, files: ModelFiles) -> None:
    if not options.output:
        raise UsageError("-o says where the model with its new weights goes")
    if options.nodes:
        raise UsageError("--nodes says which weights are written; --name and --partial say which are taken")
    _refuse_same(options.output, options.source, options.weights)
    network = files.load(options.source)
    taken = load_weights(
        network, options.weights, order=options.order, names=_names(options.name), partial=options.partial
    )
    if not taken.nodes:
        raise DataError(f"no node of '{options.source}' is called as an array of '{options.weights}'")
    _written(options.output, lambda: files.save(network, options.output))
    print(f"{options.output}: {_counted(len(taken.nodes), 'node')} with new weights")
    for title, names in (("not in the file, as before", taken.kept), ("in the file alone", taken.left)):
        if names:
            print(f"    {title}: {', '.join(names)}")


def _write(options: argparse.Namespace, files: ModelFiles) -> None:
    _refuse_same(options.output, options.source)
    network = files.load(options.source)
    names = _written(
        options.output, lambda: save_weights(network, options.output, order=options.order, nodes=options.nodes)
    )
    print(f"{options.output}: {_counted(len(names), 'array')}")


def _list(options: argparse.Namespace, files: ModelFiles) -> None:
    """Print names, shapes and types."""
    if is_weights_file(options.source):
        entries = open_weights(Path(options.source)).entries
        rows = [(name, entry.shape, entry.dtype) for name, entry in entries.items()]
    else:
        network = files.load(options.source)
        turned = options.order == "cntk"
        valued = [(node.name, node.value.T if turned else node.value) for node in network if node.value is not None]
        rows = [(name, value.shape, value.dtype.name) for name, value in valued]
    for name, shape, dtype in rows:
        print(f"{name or '(no name)'}  {' x '.join(map(str, shape)) or 'one number'}  {dtype}")


def _names(said: Iterable[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for text in said:
        node, equals, array = text.partition("=")
        if not equals or not node or not array:
            raise UsageError(f"'{text}' does not say which array a node gets", hint="Write --name NODE=ARRAY.")
        if node in names:
            raise UsageError(f"--name says twice which array '{node}' gets")
        names[node] = array
    return names


def _refuse_same(output: str, *read: str) -> None:
    target = Path(output)
    if target.exists() and any(Path(source).exists() and target.samefile(source) for source in read):
        raise UsageError(f"'{output}' is a file that is read", hint="Give the new one another name: it may be lost.")


def _written(output: str, write: Callable[[], T]) -> T:
    try:
        return write()
    except OSError as error:
        raise DataError(f"'{output}' cannot be written: {error.strerror}") from None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
