"""Action: what a command section of a recipe asks for with ``action = "name"``.

A wheel offers it as an entry point of the group ``cntk.actions``; the name of the entry point is the word that a recipe
writes, and an action with two words has two entry points::

    class CountAction(Action):
        requires_api = "1.0"

        def check(self, context: ActionContext, section: Config) -> None:
            section.require("modelPath")

        def run(self, context: ActionContext, section: Config) -> None:
            network = context.load_model(section.string("modelPath"), section.location("modelPath"))
            context.log.line(f"{len(network)} nodes")
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from cntk_core.contract.component import Component

if TYPE_CHECKING:
    from cntk_core.config import Config
    from cntk_core.contract.engine import ExecutionEngine
    from cntk_core.contract.reader import DataReader
    from cntk_core.contract.writer import DataWriter
    from cntk_core.errors import Location
    from cntk_core.network.network import Network
    from cntk_core.network.node import Input


class RunLog(Protocol):
    """Where an action writes its lines: the console, or the file that the recipe's ``stderr`` names."""

    def line(self, text: str = "") -> None:
        """Write a line, with the time in front if the recipe asks for it."""

    def plain(self, text: str = "") -> None:
        """Write text as it is."""

    def warn(self, text: str) -> None:
        """Write a warning."""


class ActionContext(Protocol):
    """What an action may ask of the run beside its section. More may be there; only this is kept stable."""

    @property
    def config(self) -> Config:
        """The top level of the recipe."""

    @property
    def log(self) -> RunLog:
        """Where lines go."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of values and parameters, as the recipe asks for it."""

    @property
    def rank(self) -> int:
        """This rank, from 0."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""

    def make_reader(self, section: Config, inputs: Iterable[Input] = (), *, key: str = "reader") -> DataReader:
        """Make the reader of a section (or ``key="cvReader"``) for the inputs of a network. Close it at the end.

        Raises:
            CntkError: the block is wrong, a file is missing, a stream is missing.
        """

    def make_writer(self, section: Config, outputs: Mapping[str, int]) -> DataWriter:
        """Make the writer of a section for output nodes with so many elements.

        Raises:
            CntkError: the block is wrong, or does not fit the nodes.
        """

    def build_network(self, section: Config) -> Network:
        """Build the network that a section describes, with shapes and the first values of the parameters.

        Raises:
            CntkError: there is no description, it is wrong, or its builder is not installed.
        """

    def network_of(self, section: Config) -> Network:
        """Return the network that a section describes, else the model that its ``modelPath`` names."""

    def load_model(self, path: str, where: Location | None = None, *, as_saved: bool = False) -> Network:
        """Load a model file of any known format in the precision of this run, or with ``as_saved`` in its own.

        Raises:
            DataError: there is no such file.
            ModelFormatError: it is no model.
        """

    def save_model(self, network: Network, path: str, where: Location | None = None) -> None:
        """Write a model file in the program's own format; missing folders are made.

        Raises:
            DataError: the file cannot be written.
        """

    def make_engine(self, section: Config) -> ExecutionEngine:
        """Make the engine that the recipe asks for, or the best that can run here.

        Raises:
            PluginError: it is not installed, cannot run here, or has no such device.
        """


class Action(Component):
    """Does what a command section asks for. Made without arguments; one instance may run several sections.

    A command section also holds what readers, builders and engines ask for, so that its keys are not checked against
    ``options`` as a whole: :meth:`configure` picks the fields of ``options`` out of it.

    Attributes:
        name: the first of its words, by which listeners (``job.action``) know it; by default that in the recipe.
        on_all_ranks: all ranks of a parallel run do it together; otherwise rank 0 alone, and the others wait.
        announces_itself: it calls the job hooks itself, with its network. Otherwise they are called around it.
        needs_engine: it computes. That there is an engine is then checked before anything runs, and listeners are told
            its name.
        writes: keys whose values name files or folders, or what their names begin with, that it writes; an empty value
            and ``-`` name none. Under ``--safe`` it is seen before anything runs that they may be written. A file that
            no key names whole is asked for with :func:`cntk_core.api.ask_to_write`.
        runs: keys whose values are commands of the system; refused under ``--safe``.
    """

    name: ClassVar[str] = ""
    on_all_ranks: ClassVar[bool] = False
    announces_itself: ClassVar[bool] = False
    needs_engine: ClassVar[bool] = False
    writes: ClassVar[tuple[str, ...]] = ()
    runs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def configure(cls, block: Any, what: str) -> Any:
        """Make the options from a section; what the section holds for others is left alone."""
        return block.bind(cls.options, ignore=block.keys(), what=what)

    # The context is an ActionContext and the section a Config. They are Any here, because an action of the core is
    # told more than others are.

    def check(self, context: Any, section: Any) -> None:
        """Raise what is wrong with the section (a ``Config``), all of it together; by default nothing.

        It is called for all sections before the first action runs, so models that earlier actions write need not be
        there. ``context`` is an :class:`ActionContext`.

        Raises:
            CntkError, Problems: with the place in the recipe.
        """
        return

    @abstractmethod
    def run(self, context: Any, section: Any) -> None:
        """Do the work; ``context`` is an :class:`ActionContext`, ``section`` a ``Config``.

        Raises:
            CntkError: what the user has to mend.
        """
