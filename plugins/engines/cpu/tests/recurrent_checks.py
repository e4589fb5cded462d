"""Recurrent networks on this engine compared with the reference, over minibatches of different shape."""

from __future__ import annotations

import numpy as np
from cpu_networks import SCALARS, compile_on, engine, momentum_rule, reference

LENGTHS = ([4, 2, 7], [1, 1, 3, 0, 5], [6], [1, 1], [2, 2, 9, 2, 1, 2], [3, 1, 2], [1], [0, 1, 0], [4, 2, 7])
"""More and fewer frames and sequences than before, and none of a length that the buffers were made for."""


def assert_same(plan, backend, batches, dtype):
    """Values and every gradient of minibatches one after the other, then every parameter's change."""
    tolerance = {"rtol": 2e-3, "atol": 3e-5} if np.dtype(dtype) == np.float32 else {"rtol": 1e-8, "atol": 1e-11}
    (wanted, expected), (store, program) = reference(plan), compile_on(engine(backend), plan, None, dtype)
    for number, batch in enumerate(batches):
        for each in (expected, program):
            each.compute_gradients(batch)
        for root in plan.roots:
            found = program.value(root.name)
            np.testing.assert_allclose(found, expected.value(root.name), **tolerance, err_msg=f"{number} {root.name}")
        for parameter in plan.trained:
            np.testing.assert_allclose(
                store.gradient(parameter),
                wanted.gradient(parameter),
                **tolerance,
                err_msg=f"{number} {parameter.name}",
            )
    assert_same_changes(plan, backend, batches, dtype)


def assert_same_changes(plan, backend, batches, dtype):
    """What train_step makes of every parameter."""
    tolerance = 1e-3 if np.dtype(dtype) == np.float32 else 1e-8
    rule = momentum_rule()
    (wanted, expected), (store, program) = reference(plan, rule), compile_on(engine(backend), plan, rule, dtype)
    first = {parameter: wanted.value(parameter).copy() for parameter in plan.trained}
    for batch in batches:
        for each in (expected, program):
            each.train_step(batch, [SCALARS] * len(plan.trained))
    for parameter in plan.trained:
        change = wanted.value(parameter) - first[parameter]
        error = np.linalg.norm(store.value(parameter) - first[parameter] - change)
        rounding = np.finfo(dtype).eps * np.linalg.norm(first[parameter]) * len(batches)
        assert error <= tolerance * np.linalg.norm(change) + rounding, parameter.name
    assert any(np.abs(wanted.value(parameter) - first[parameter]).max() > 1e-3 for parameter in plan.trained)
