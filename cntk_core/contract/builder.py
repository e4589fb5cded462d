"""NetworkBuilder: from a description in some language to a Network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk_core.config import Config
from cntk_core.contract.component import Component
from cntk_core.contract.initializer import InitializerSettings, ParameterInitializer
from cntk_core.errors import BuildError, Location, UnsupportedError, did_you_mean
from cntk_core.network.initializers import Initializer
from cntk_core.network.network import Network
from cntk_core.ops.language.op import Op


def _no_load(path: str, where: Location | None = None) -> Network:
    raise BuildError(f"the model '{path}' cannot be loaded here: this context gives no models", where=where)


def _no_save(network: Network, path: str, where: Location | None = None) -> None:
    raise BuildError(f"the model '{path}' cannot be saved here: this context takes no models", where=where)


def installed_initializer(kind: str, settings: InitializerSettings) -> Initializer:
    """Return the initializer that an installed wheel offers under a word; case does not count.

    Raises:
        BuildError: there is no such word, or what it needs is not given.
    """
    points = entry_points(group="cntk.initializers")
    found = next((point for point in points if point.name.lower() == kind.lower()), None)
    if found is None:
        names = sorted({point.name for point in points})
        raise BuildError(
            f"there is no initializer '{kind}'{did_you_mean(kind, names)}",
            where=settings.where,
            hint=f"Initializers: {', '.join(names) or 'none is installed'}",
        )
    rule: type[ParameterInitializer] = found.load()
    return rule.make(kind, settings)


@attrs.define
class SeedNumbers:
    """The numbers that the random parameters of a run get, from 1: each language counts on from network to network."""

    _next: dict[object, int] = attrs.field(factory=dict, init=False)

    def take(self, kind: object) -> int:
        """Return the next number of a kind."""
        number = self._next.get(kind, 1)
        self._next[kind] = number + 1
        return number


@attrs.frozen
class BuildContext:
    """What a builder is told beside its block.

    Attributes:
        find_op: look up an operation by the name that a language uses (``language``, ``name``), None if unknown.
        op_names: all names of a language, for hints.
        dtype: precision of the network.
        directory: relative paths start here (the process directory).
        random_seed: base seed of parameter initialisation; parameters add their creation index.
        streams: stream name to sample shape (memory order), as the reader of the same action describes them.
        base: the network that is edited, if any (MEL, BrainScript editing).
        load_model: ``(path, place in the recipe) -> Network`` of a model file, for descriptions that start from one.
        save_model: ``(network, path, place in the recipe)`` writes a model file, for scripts that edit models.
        trace: function for information and warnings, one line each.
        seeds: what :meth:`next_seed` counts with; the networks of one run share it.
        make_initializer: ``(word, settings) -> Initializer``, for the first values of parameters.
    """

    find_op: Callable[[str, str], Op | None]
    op_names: Callable[[str], tuple[str, ...]]
    dtype: np.dtype[Any] = attrs.field(factory=lambda: np.dtype(np.float32))
    directory: Path = attrs.field(factory=Path)
    random_seed: int = 0
    streams: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    base: Network | None = None
    load_model: Callable[[str, Location | None], Network] = _no_load
    save_model: Callable[[Network, str, Location | None], None] = _no_save
    trace: Callable[[str], None] = print
    seeds: SeedNumbers = attrs.field(factory=SeedNumbers)
    make_initializer: Callable[[str, InitializerSettings], Initializer] = installed_initializer

    def next_seed(self, language: str) -> int:
        """Return the seed of the next random parameter that a language makes, as the original numbers them."""
        return self.random_seed + self.seeds.take((language, np.dtype(self.dtype).char))


@attrs.frozen
class Document:
    """A recipe that is written in the language of a builder as a whole, as the command line gives it.

    Attributes:
        files: paths of the files that it consists of, in order, each with its place on the command line.
        definitions: texts that define further members, or other values of members, each with its place.
        folders: folders in which included files are looked for, too.
    """

    files: tuple[tuple[str, Location], ...]
    definitions: tuple[tuple[str, Location], ...] = ()
    folders: tuple[str, ...] = ()


class NetworkBuilder(Component):
    """Builds networks. Made without arguments; one instance may build many networks.

    Attributes:
        describes_networks: a block under one of its words describes the network of the section that it stands in.
        block_is_section: such a block has keys and values, as sections have; else it is text that this builder alone
            reads.
        priority: of several such blocks, that of the builder with the highest is the network of the section.
        recipe_suffixes: ends of names of files that :meth:`read_recipe` reads; the empty one is for all other files.
    """

    describes_networks: ClassVar[bool] = True
    block_is_section: ClassVar[bool] = False
    priority: ClassVar[int] = 0
    recipe_suffixes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def build(self, block: Any, context: BuildContext) -> Network:
        """Return the network that ``block`` (a ``Value`` of the configuration: a section, a file name, text) describes.

        All mistakes found in one pass are raised together, each with its place in the recipe. Parameters are declared
        with their initialisers; the caller fills them after shapes are inferred.
        """

    def check(self, block: Any, context: BuildContext) -> None:
        """Raise what is wrong with ``block`` as far as it can be seen without building; by default nothing.

        Actions call it before the first one of a recipe runs, so models that earlier actions write need not be there.
        """
        return

    def read_recipe(self, document: Document, context: BuildContext) -> Config:
        """Return the top level of a recipe that is written in this builder's language.

        Its values are evaluated when actions ask for them (``EvaluatedEntry``); where it describes a network, the value
        that ``build`` gets has what this builder wants to know in ``content.description``.

        Raises:
            UnsupportedError: recipes cannot be written in this language.
            CntkError, Problems: what is wrong with the text.
        """
        raise UnsupportedError(
            f"{type(self).__name__} reads no whole recipes", where=document.files[0][1] if document.files else None
        )
