"""Reading the arguments of one function call as numbers, texts and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from cntk_builder_ndl.scope import ArrayOf, FunctionCall, Given, MacroCall, Operand, Reference, resolve, result
from cntk_builder_ndl.syntax import Number, Text
from cntk_core.api import BuildContext, BuildError, Location, UnsupportedError, did_you_mean
from cntk_core.api.builders import FREE

_TRUE = ("true", "t", "1")
_FALSE = ("false", "f", "0")
_TAGS = {
    "feature": "feature",
    "label": "label",
    "criterion": "criterion",
    "criteria": "criterion",
    "evaluation": "evaluation",
    "eval": "evaluation",
    "output": "output",
}


_INNER_SEEDS = 2**31
"""The first seeds of parameters that stand among the arguments of calls; far from those of the original."""

_OPTIONS = frozenset(
    word.lower()
    for word in (
        "autoPadding", "blendTimeConstant", "cols", "computeGradient", "defaultHiddenActivity", "delayTime",
        "dynamicAxis", "engine", "epsilon", "imageChannels", "imageHeight", "imageLayout", "imageWidth", "init",
        "initFromFilePath", "initOnCPUOnly", "initValueScale", "kernelHeight", "kernelWidth",
        "learningRateMultiplier", "lowerPad", "mapCount", "maxTempMemSizeInSamples", "needGradient", "needsGradient",
        "normalizationTimeConstant", "outputShape", "randomSeed", "rows", "sharing", "spatial", "stride", "timeStep",
        "transpose", "upperPad", "value", "zeroPadding",
    )
)  # fmt: skip
"""Options that a function of the original has. Given to another one, they do nothing there."""


@attrs.define
class Reader:
    """The arguments of a function call.

    Attributes:
        call: the call.
        name: the function as the documentation spells it.
        usage: how it is called, for messages.
        context: what the builder was told.
        seed_offset: the builder's ``randomSeedOffset``.
    """

    call: FunctionCall
    name: str
    usage: str
    context: BuildContext
    seed_offset: int = 0
    _asked: dict[str, str] = attrs.field(factory=dict)
    _obsolete: set[str] = attrs.field(factory=set)

    @property
    def where(self) -> Location:
        """The place of the call."""
        return self.call.where

    @property
    def node_name(self) -> str:
        """The name of the node in the network."""
        return self.call.scope.full_name(self.call.name)

    def next_seed(self) -> int:
        """Return the seed of a random parameter that has none of its own.

        The original numbers those that are statements. Parameters among the arguments of a call, which it leaves at
        zero, get seeds of their own here, so that they do not change those of the others.
        """
        if any(statement is self.call for statement in self.call.scope.calls):
            return self.context.next_seed("ndl")
        return _INNER_SEEDS + self.context.next_seed("ndl, inside of a call")

    @property
    def count(self) -> int:
        """How many positional arguments there are."""
        return len(self.call.arguments)

    def expect(self, fewest: int, most: int | None = None) -> None:
        """Raise BuildError unless there are as many positional arguments as the function takes."""
        most = fewest if most is None else most
        if fewest <= self.count <= most:
            return
        wanted = str(fewest) if fewest == most else f"{fewest} or more" if most > 99 else f"{fewest} to {most}"
        plural = "" if wanted == "1" else "s"
        raise BuildError(
            f"{self.name} takes {wanted} argument{plural}, not {self.count}", where=self.where, hint=self.usage
        )

    # -- positional arguments -------------------------------------------------------------------------------

    def nodes(self, start: int = 0, end: int | None = None) -> tuple[Operand, ...]:
        """Return arguments that are inputs."""
        return self.call.arguments[start:end]

    def whole(self, index: int, what: str, *, least: int = 0) -> int:
        """Return an argument that is a whole number. Raises BuildError."""
        return self._whole(self.call.arguments[index], what, least)

    def wholes(self, what: str, start: int = 0, end: int | None = None, *, least: int = 0) -> list[int]:
        """Return arguments that are whole numbers. Raises BuildError."""
        return [self._whole(argument, what, least) for argument in self.call.arguments[start:end]]

    def dims(self, start: int = 0, end: int | None = None) -> list[int]:
        """Return arguments that are dimensions of an input; ``FreeDimension`` is one that each minibatch brings.

        Raises:
            BuildError: one is neither that word nor a whole number from 1 on.
        """
        found = []
        for argument in self.call.arguments[start:end]:
            value = _constant(argument)
            is_free = isinstance(value, Reference) and value.text.lower() == "freedimension"
            found.append(FREE if is_free else self._whole(argument, "a dimension", 1))
        return found

    def whole_or_constant(self, index: int, what: str, *, least: int = 0) -> int:
        """Return an argument that is a whole number or a call of Constant. Raises BuildError."""
        operand = self.call.arguments[index]
        found = result(operand)
        if isinstance(found, FunctionCall) and found.function.lower() in ("constant", "const") and found.arguments:
            operand = found.arguments[0]
        return self._whole(operand, what, least)

    def array(self, index: int, what: str, *, least: int = 0) -> tuple[int, ...]:
        """Return an argument that is an array of whole numbers, or one such number. Raises BuildError."""
        return self._array(self.call.arguments[index], what, least)

    def choice(self, index: int, what: str, choices: Sequence[str]) -> str:
        """Return an argument that is one of some words, in lower case. Raises BuildError."""
        operand = self.call.arguments[index]
        value = _constant(operand)
        text = value.text if isinstance(value, Text | Reference) else ""
        if text.lower() not in choices:
            raise BuildError(
                f"{what} cannot be {_describe(operand)}{did_you_mean(text, choices)}",
                where=operand.where,
                hint=f"Accepted: {', '.join(choices)}",
            )
        return text.lower()

    def is_number(self, index: int) -> bool:
        """Whether an argument is a number, or a name that stands for one."""
        return isinstance(_constant(self.call.arguments[index]), Number)

    def number(self, index: int, what: str) -> float:
        """Return an argument that is a number. Raises BuildError."""
        return self._number(self.call.arguments[index], what).value

    # -- optional arguments ---------------------------------------------------------------------------------

    def option_number(self, key: str, default: float) -> float:
        """Return the number of an option. Raises BuildError."""
        given = self._given(key)
        return default if given is None else self._number(given.value, given.name).value

    def option_whole(self, key: str, default: int) -> int:
        """Return the whole number of an option. Raises BuildError."""
        given = self._given(key)
        return default if given is None else self._whole(given.value, given.name, None)

    def option_flag(self, key: str, default: bool) -> bool:
        """Return the truth value of an option. Raises BuildError."""
        given = self._given(key)
        if given is None:
            return default
        return self._flag(given.value, given)

    def option_array(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Return the whole numbers of an option: an array or one number. Raises BuildError."""
        given = self._given(key)
        return default if given is None else self._array(given.value, given.name, None)

    def option_numbers(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Return the numbers of an option: an array or one number. Raises BuildError."""
        given = self._given(key)
        if given is None:
            return default
        return tuple(self._number(item, given.name).value for item in _items(given.value))

    def option_flags(self, key: str, default: tuple[bool, ...]) -> tuple[bool, ...]:
        """Return the truth values of an option: an array or one. Raises BuildError."""
        given = self._given(key)
        return default if given is None else tuple(self._flag(item, given) for item in _items(given.value))

    def option_texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return the texts of an option: an array or one. Raises BuildError."""
        given = self._given(key)
        return default if given is None else tuple(self._word(item, given) for item in _items(given.value))

    def option_text(self, key: str, default: str) -> str:
        """Return the text of an option: a word, a text in quotation marks, or a name that stands for one."""
        given = self._given(key)
        return default if given is None else self._text(given)

    def option_choice(self, key: str, default: str, choices: Sequence[str]) -> str:
        """Return the choice of an option, in lower case. Raises BuildError."""
        text = self.option_text(key, default)
        if text.lower() not in [choice.lower() for choice in choices]:
            given = self._given(key)
            raise BuildError(
                f"'{key}' cannot be '{text}'{did_you_mean(text, choices)}",
                where=given.where if given else self.where,
                hint=f"Accepted: {', '.join(choices)}",
            )
        return text.lower()

    def option_path(self, key: str) -> Path | None:
        """Return the path of an option from the directory of the process, None if it is not given."""
        text = self.option_text(key, "").strip('"')
        return self.context.directory / text if text else None

    def option_where(self, key: str) -> Location:
        """Return the place of an option, of the call if it is not given."""
        given = self._given(key)
        return given.where if given else self.where

    def roles(self) -> list[str]:
        """Return the groups of the call's tag. Raises BuildError."""
        return roles_of(self.call)

    def finish(self) -> list[Given]:
        """Return the options that other functions have and this one has not: in the original they have no effect.

        Raises:
            BuildError: an option is one of no function.
        """
        known = [*self._asked.values(), "tag"]
        ignored: list[Given] = []
        for key, given in self.call.options.items():
            if key in self._asked or key in self._obsolete or key == "tag":
                continue
            if key not in _OPTIONS:
                raise BuildError(
                    f"{self.name} has no optional argument '{given.name}'{did_you_mean(given.name, known)}",
                    where=given.where,
                    hint=f"Optional arguments: {', '.join(known)}",
                )
            ignored.append(given)
        return ignored

    def given(self, key: str) -> bool:
        """Whether an option is given."""
        return self._given(key) is not None

    def no_longer(self, key: str, old: str) -> None:
        """Take an option of older versions that had one meaning, which is now the only one.

        Raises:
            UnsupportedError: it is not ``old``.
        """
        given = self._given(key)
        if given is not None and self._text(given).lower() != old:
            raise UnsupportedError(
                f"{self.name} can no longer have '{given.name}={self._text(given)}'", where=given.where
            )
        self._asked.pop(key.lower())
        self._obsolete.add(key.lower())

    # -- inner parts ----------------------------------------------------------------------------------------

    def _given(self, key: str) -> Given | None:
        self._asked[key.lower()] = key
        return self.call.options.get(key.lower())

    def _number(self, operand: Operand, what: str) -> Number:
        value = resolve(operand) if isinstance(operand, Reference) else operand
        if isinstance(value, MacroCall):
            value = result(value)
        if not isinstance(value, Number):
            raise BuildError(f"{what} must be a number, not {_describe(operand)}", where=operand.where)
        return value

    def _whole(self, operand: Operand, what: str, least: int | None) -> int:
        number = self._number(operand, what)
        low = -(2**63) if least is None else least
        if not number.value.is_integer() or not low <= number.value < 2**63:
            raise BuildError(f"{what} must be a whole number, not {number.text}", where=operand.where)
        return int(number.value)

    def _array(self, operand: Operand, what: str, least: int | None) -> tuple[int, ...]:
        return tuple(self._whole(item, what, least) for item in _items(operand))

    def _flag(self, operand: Operand, given: Given) -> bool:
        text = self._word(operand, given)
        if text.lower() not in (*_TRUE, *_FALSE):
            raise BuildError(f"'{given.name}' must be true or false, not '{text}'", where=given.where)
        return text.lower() in _TRUE

    def _text(self, given: Given) -> str:
        return self._word(given.value, given)

    def _word(self, operand: Operand, given: Given) -> str:
        value = _constant(operand)
        if isinstance(value, Number | Text | Reference):
            return value.text
        raise BuildError(f"'{given.name}' must be a word, not {_describe(value)}", where=given.where)


def _constant(operand: Operand) -> Operand:
    """Follow a name to a number, text or array; a name that leads to anything else is a word."""
    if not isinstance(operand, Reference):
        return operand
    try:
        found = resolve(operand)
    except BuildError:
        return operand
    return found if isinstance(found, Number | Text | ArrayOf) else operand


def _items(operand: Operand) -> tuple[Operand, ...]:
    """Return the items of an array, or what stands for one as its only item."""
    value = _constant(operand)
    return value.items if isinstance(value, ArrayOf) else (operand,)


def _describe(operand: Operand) -> str:
    if isinstance(operand, Reference):
        return f"'{operand.text}'"
    if isinstance(operand, Text):
        return f'the text "{operand.text}"'
    if isinstance(operand, ArrayOf):
        return "an array"
    if isinstance(operand, FunctionCall):
        return f"a call of {operand.function}"
    return "a macro call" if isinstance(operand, MacroCall) else operand.text


def roles_of(call: FunctionCall | MacroCall) -> list[str]:
    """Return the groups that a call's ``tag`` names; ``multiSeq`` has no meaning any more.

    Raises:
        BuildError: there is no such group.
    """
    given = call.options.get("tag")
    if given is None:
        return []
    value = given.value
    text = value.text if isinstance(value, Number | Text | Reference) else ""
    if text.lower() == "multiseq":
        return []
    # The original looks at no more than the first four letters of an evaluation tag.
    role = "evaluation" if text.lower().startswith("eval") else _TAGS.get(text.lower())
    if role is None:
        raise BuildError(
            f"there is no tag '{text}'{did_you_mean(text, _TAGS)}",
            where=given.where,
            hint="Tags: feature, label, criterion, evaluation, output",
        )
    return [role]
