"""OpTable: which name means which op in which language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from cntk_core.errors import PluginError, did_you_mean
from cntk_core.ops.language.op import Op, OpNames

FindOp = Callable[[str, str], Op | None]
"""``(language, name)`` to the operation, None if there is none. The language of model files is ``"model"``."""

LANGUAGES = ("", "ndl", "brainscript", "model")
"""Languages that give ops further names; ``""`` knows the canonical names only."""

FAMILIES = (
    "leaves",
    "unary",
    "activations",
    "binary",
    "products",
    "distances",
    "reductions",
    "softmax",
    "reshaping",
    "slicing",
    "rearranging",
    "padding",
    "ordering",
    "filling",
    "dropout",
    "criteria",
    "precompute",
    "quantized",
    "vocabulary",
    "sampling",
    "ranking",
    "mixtures",
    "recurrence",
    "shifting",
    "recurrent_stack",
    "sequences",
    "batches",
    "outputs",
    "attention",
    "linear_chain",
    "alignment",
    "convolution",
    "pooling",
    "normalization",
    "layer_normalization",
    "cropping",
    "monitoring",
    "adjoints",
    "image_adjoints",
    "attention_adjoints",
)
"""The modules with the core's ops, in the order of the reference page. They are imported when ops are asked for."""


class OpTable:
    """Ops by name. Case does not count. Every language knows the canonical names and its own aliases."""

    def __init__(self) -> None:
        self._ops: dict[str, Op] = {}
        self._names: dict[str, dict[str, tuple[str, Op]]] = {language: {} for language in LANGUAGES}

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops.values())

    def __len__(self) -> int:
        return len(self._ops)

    def add(self, op: Op) -> Op:
        """Add an op and return it.

        Raises:
            PluginError: one of its names already means another op, or it has names in an unknown language.
        """
        wanted = [(language, op.name) for language in LANGUAGES]
        wanted += [(language, alias) for language, aliases in op.aliases.items() for alias in aliases]
        for language, name in wanted:
            self._check(op, language, name)
        self._ops[op.name.lower()] = op
        for language, name in wanted:
            self._names[language][name.lower()] = (name, op)
        return op

    def _check(self, op: Op, language: str, name: str) -> None:
        if language not in self._names:
            known = ", ".join(language for language in LANGUAGES if language)
            raise PluginError(
                f"the op '{op.name}' has names in the unknown language '{language}'", hint=f"Languages: {known}"
            )
        other = self._names[language].get(name.lower())
        if other is not None:
            place = f" in {language}" if language else ""
            raise PluginError(
                f"the name '{name}' of the op '{op.name}' already means '{other[1].name}'{place}",
                hint="Give the op another name, or install only one of the wheels.",
            )

    def find(self, language: str, name: str) -> Op | None:
        """Return the op of a name in a language, None if there is none. Case does not count."""
        found = self._names[language].get(name.lower())
        return found[1] if found else None

    def names(self, language: str) -> list[str]:
        """All names that a language knows, sorted without regard to case."""
        return sorted((name for name, _ in self._names[language].values()), key=str.lower)


def families() -> tuple[ModuleType, ...]:
    """Return the modules with the core's ops, imported."""
    return tuple(import_module(f"cntk_core.ops.families.{name}") for name in FAMILIES)


def core_ops() -> OpTable:
    """Return a new table with the ops of the core."""
    table = OpTable()
    for family in families():
        for op in family.OPS:
            table.add(op)
    return table


def core_op(name: str) -> Op:
    """Return the core's op of a name. Case does not count.

    Raises:
        PluginError: it has none.
    """
    table = _core()
    found = table.find("", name)
    if found is None:
        raise PluginError(
            f"the core has no operation '{name}'{did_you_mean(name, table.names(''))}",
            hint="For an operation of a plugin, give the op itself.",
        )
    return found


@cache
def _core() -> OpTable:
    return core_ops()


OpNames.find = core_op
