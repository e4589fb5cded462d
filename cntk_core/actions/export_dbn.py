"""The action exportdbn: a DBN file from a model."""

from __future__ import annotations

from cntk_core.config import Config
from cntk_core.errors import CntkError, DataError
from cntk_core.network.dbn_file import write_dbn
from cntk_core.network.to_dbn import dbn_of
from cntk_core.recipe.context import ActionContext


def check(context: ActionContext, section: Config) -> None:
    """Raise what is wrong with the section before anything runs."""
    section.require("modelPath")
    section.require("dbnModelPath")


def run(context: ActionContext, section: Config) -> None:
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
