"""The action exportdbn: a DBN file from a model."""

from __future__ import annotations

from cntk_core.api import Action, CntkError, Config, DataError
from cntk_core.api.recipes import RecipeContext
from cntk_model_cntk1.dbn_file import write_dbn
from cntk_model_cntk1.to_dbn import dbn_of


class ExportDbnAction(Action):
    """Makes a DBN file from a model."""

    requires_api = "1.0"
    name = "exportdbn"
    writes = ("dbnModelPath",)

    def check(self, context: RecipeContext, section: Config) -> None:
        """Raise what is wrong with the section before anything runs."""
        section.require("modelPath")
        section.require("dbnModelPath")

    def run(self, context: RecipeContext, section: Config) -> None:
        """Read ``modelPath`` and write ``dbnModelPath``.

        Raises:
            CntkError: a file cannot be read or written, or the network is not of the form that a DBN file holds.
        """
        place = section.location("modelPath")
        network = context.load_model(section.string("modelPath"), place)
        try:
            dbn = dbn_of(network)
        except CntkError as error:
            error.where = error.where or place
            raise
        if dbn.prior is None:
            context.log.plain(
                "Warning: the model has no node of which it is certain that it is the prior; none is written."
            )
        target = section.string("dbnModelPath")
        try:
            write_dbn(dbn, target)
        except OSError as error:
            where = section.location("dbnModelPath")
            raise DataError(f"the DBN file '{target}' cannot be written: {error.strerror}", where=where) from None
