"""Go on with a training of CNTK 2 from its Trainer's checkpoint, and write what becomes of the parameters.

    python tools/continue_training.py MODEL CKP NPZ_IN NPZ_OUT [INDEX [NAME]]

``NPZ_IN`` has minibatches ``next/K/NAME``, named as the inputs of ``tools/evaluate_model.py``; they are learned in the
order of K. ``NPZ_OUT`` gets ``after/UID`` for each parameter. A checkpoint does not say what its learner was: that
stands in ``INDEX``, by default ``index.json`` beside the model, as Python wrote it there: ``cases`` by the model's
name, each with ``learner``; or one such case alone. With ``NAME``, the checkpoint after the minibatches is written to
``NAME`` and ``NAME.ckp``, from which a Trainer of CNTK 2 goes on.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cntk_model_cntk2.checkpoint import read_checkpoint, restore_learner
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.write_checkpoint import learner_state, rewrite_model, write_checkpoint
from evaluate_model import inputs_of

from cntk_core.api import CntkError
from cntk_core.plugins.manager import PluginManager
from cntk_core.trainer import LearnerSettings, Trainer

_NAMES = {"sgd": "sgd", "momentum_sgd": "sgd", "nesterov": "sgd", "adagrad": "adagrad", "adadelta": "adadelta"}
_NAMES |= {"adam": "adam", "fsadagrad": "fsadagrad", "rmsprop": "rmsprop"}
_OPTIONS = {
    "rho": "rho",
    "epsilon": "epsilon",
    "gamma": "rms_gamma",
    "inc": "rms_wgt_inc",
    "dec": "rms_wgt_dec",
    "max": "rms_wgt_max",
    "min": "rms_wgt_min",
    "need_ave_multiplier": "norm_with_ave_multiplier",
}
"""Arguments of the original's learners to options of ours."""


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (4, 5, 6):
        print(__doc__, file=sys.stderr)
        return 2
    model, checkpoint, given, wanted = map(Path, arguments[:4])
    index = Path(arguments[4]) if len(arguments) > 4 else model.parent / "index.json"
    try:
        entry = json.loads(index.read_text(encoding="utf-8"))
        entry = entry.get("cases", {}).get(model.stem, entry)
        with np.load(given) as arrays:
            found = go_on(model, checkpoint, dict(arrays), entry["learner"], save=" ".join(arguments[5:]))
    except (CntkError, OSError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    np.savez(wanted, **found)
    return 0


def go_on(
    model: Path, checkpoint: Path, arrays: Mapping[str, Any], learner: str, engine: str = "cpu", save: str = ""
) -> dict[str, Any]:
    """Return the parameters by uid after the minibatches; write the checkpoint then if ``save`` is a name."""
    plugins = PluginManager()
    loaded = load_model(model, plugins.registry.ops.find)
    numbers = sorted({int(name.split("/")[1]) for name in arrays if name.startswith("next/")})
    minibatches = [inputs_of(loaded, arrays, f"next/{number}") for number in numbers]
    samples = max(map(len, minibatches[0].values()))
    settings, shares = learner_of(learner, samples)
    rate = float(settings.rate)  # type: ignore[arg-type]
    criterion = loaded.network.roots["criterion"][0]
    trainer = Trainer(loaded.network, criterion, settings, evaluations=(), engine=engine, plugins=plugins)
    (state, *_), store = read_checkpoint(checkpoint), trainer.model.store
    parameters = list(loaded.parameters.values())
    restore_learner(state, store, parameters, shares)
    for data in minibatches:
        settings.rate = rate / max(map(len, data.values()))  # the rates of CNTK 2.7's learners are those of minibatches
        trainer.train_minibatch(data)
    if save:
        learned = sum(max(map(len, data.values())) for data in minibatches)
        now = learner_state(
            store,
            parameters,
            samples=state.samples + learned,
            minibatches=state.minibatches + len(minibatches),
            momentum=float(settings.momentum),  # type: ignore[arg-type]
            before=state,
        )
        rewrite_model(model, save, {uid: np.asarray(leaf.value) for uid, leaf in loaded.leaves.items()})
        write_checkpoint(f"{save}.ckp", [now], [parameters])
    return {f"after/{uid}": np.array(parameter.value) for uid, parameter in loaded.parameters.items()}


def learner_of(expression: str, samples: int) -> tuple[LearnerSettings, dict[str, float]]:
    """Return our learner for a call such as ``C.adam(p, RATE(.05), MOM(.9), unit_gain=True)``, and Adam's shares.

    Args:
        expression: the call; numbers are those of a minibatch, as CNTK 2.7 has them.
        samples: in a minibatch.

    Raises:
        ValueError: it is no such call.
    """
    call = ast.parse(expression.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _NAMES:
        raise ValueError(f"'{expression}' is no learner of CNTK 2 that is known here")
    kind, numbers = call.func.attr, [_number(argument) for argument in call.args[1:]]
    given = {str(word.arg): _number(word.value) for word in call.keywords}
    rate, momentum = float(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 0.0
    unit_gain = bool(given.get("unit_gain", True))
    options: dict[str, Any] = {ours: given[theirs] for theirs, ours in _OPTIONS.items() if theirs in given}
    variance, shares = float(given.get("variance_momentum", 0.0)), dict[str, float]()
    if kind == "adam":
        shares = {"bias1": momentum, "bias2": variance or 0.999}
        options |= {"beta2": shares["bias2"], "unit_gain": unit_gain}
    elif not unit_gain:
        rate /= 1.0 - momentum
    if kind == "fsadagrad" and variance:
        options["variance_time_constant"] = -samples / math.log(variance)
    options |= {"use_nag": True} if kind == "nesterov" else {}
    settings = LearnerSettings(
        "adamax" if given.get("adamax") else _NAMES[kind],
        rate=rate,
        momentum=momentum,
        options=options,
        l1=float(given.get("l1_regularization_weight", 0.0)),
        l2=float(given.get("l2_regularization_weight", 0.0)),
        clip=float(given.get("gradient_clipping_threshold_per_sample", np.inf)),
        clip_norm=not given.get("gradient_clipping_with_truncation", True),
    )
    return settings, shares


def _number(node: ast.expr) -> float | bool:
    """A number or a truth value, also as the only argument of a schedule."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    value = ast.literal_eval(node)
    if not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
