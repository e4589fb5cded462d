"""Gradients before an update, for plugins that look at them or replace them (``cntk_before_update``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cntk_core.contract.events import Job, UpdateStep
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter


def offer_gradients(
    listeners: Sequence[Callable[..., Any]],
    job: Job,
    step: UpdateStep,
    store: ParameterStore,
    trained: Iterable[Parameter],
) -> None:
    """Let listeners see the gradients in a store, change them in place, or put others in place of some.

    Args:
        listeners: of ``cntk_before_update``.
        job, step: what they are told.
        store: has the gradients; on a GPU they come here and go back.
        trained: the parameters that the update changes.
    """
    store.gradients  # noqa: B018 - who holds them gives them back once, before views are taken
    views = {parameter.name: store.gradient(parameter) for parameter in trained}
    for listener in listeners:
        answer = listener(job=job, step=step, gradients=views)
        for name, gradient in (answer or {}).items():
            if gradient is not views[name]:
                views[name][...] = gradient
