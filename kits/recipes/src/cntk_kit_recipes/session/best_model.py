"""The best model takes the place of the last one."""

from __future__ import annotations

from cntk_core.contract.store import ParameterStore
from cntk_kit_recipes.session.parts import SessionParts


def put_back(parts: SessionParts, store: ParameterStore, epochs: int) -> None:
    """Take the parameters of an earlier model of this training back; the learner begins anew.

    Args:
        parts: know where it is, and load it.
        store: takes them.
        epochs: of that model.

    Raises:
        ModelFormatError: it is damaged.
    """
    model = parts.paths.model(epochs)
    if not model.is_file():
        parts.log.line(
            f"Warning: the best model, of epoch {epochs}, is not there any more: '{model}'. "
            "The final model has the parameters of the last epoch."
        )
        return
    found = parts.load_model(model, store.dtype)
    for parameter in store.parameters:
        store.value(parameter)[...] = found[parameter.name].value
    store.reset_slots()
    parts.log.line(f"earlyStopping: the final model has the parameters of epoch {epochs}, from '{model}'.")
