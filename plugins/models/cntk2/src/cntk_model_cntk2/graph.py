"""Which function a variable belongs to, through blocks and placeholders, and in what order functions are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cntk_core.api import ModelFormatError
from cntk_model_cntk2.operations import FUTURE, PAST
from cntk_model_cntk2.records import BLOCK, COMBINE, Composite, Function

_UNPACK, _TOP = 72, 87
"""Operations with a second output, which unpacking may leave out."""

_MOST_VISITS = 64
"""So many times as a file has functions its blocks are looked into: they lie inside each other."""

Output = tuple[Function, int]
"""A function that computes something, and the index of one of its outputs."""


class Graph:
    """The functions of a file with their links.

    Args:
        composite: the file.

    Raises:
        ModelFormatError: a link leads nowhere or round in a circle.
    """

    def __init__(self, composite: Composite) -> None:
        self.composite = composite
        self.arguments: dict[str, str] = {}
        self._visits = _MOST_VISITS * len(composite.functions) + 1000
        for function in composite.functions.values():
            if function.block is not None:
                self.arguments.update(function.block.arguments)

    def fail(self, message: str) -> ModelFormatError:
        """Return the error for a file that makes no sense."""
        return ModelFormatError(f"'{self.composite.path}' is damaged: {message}")

    # -- variables ----------------------------------------------------------------------------------------

    def owner(self, uid: str) -> tuple[Function, int] | None:
        """Return the function and the index of the output that a variable is; None of a leaf."""
        name, _, index = uid.rpartition("_Output_")
        function = self.composite.functions.get(name)
        return None if function is None or not index.isdecimal() or len(index) > 3 else (function, int(index))

    def steps(self, uid: str) -> list[str]:
        """Return a variable and those that it stands for, one after the other: arguments and outputs of blocks."""
        found = {uid: None}
        while (following := self._following(uid)) is not None:
            if following in found:
                raise self.fail(f"the variable '{uid[:80]}' stands for itself")
            found[following] = None
            uid = following
        return list(found)

    def _following(self, uid: str) -> str | None:
        if uid in self.arguments:
            return self.arguments[uid]
        owned = self.owner(uid)
        if owned is None or owned[0].operation not in (BLOCK, COMBINE):
            return None
        outputs = self.outputs(owned[0])
        if owned[1] >= len(outputs):
            raise self.fail(f"there is no output '{uid[:80]}'")
        return outputs[owned[1]]

    def outputs(self, function: Function) -> Sequence[str]:
        """Return the uids of a function's outputs; those of a block are inside it."""
        passed = {function.uid}
        while function.block is not None:
            root = self.composite.functions.get(function.block.root)
            if root is None or root.uid in passed:
                raise self.fail(f"the block '{function.uid[:80]}' has no root")
            passed.add(root.uid)
            function = root
        if function.operation == COMBINE:
            return function.inputs
        masked = function.operation == _UNPACK and not function.attributes.take(
            "sequenceUnpackSuppressMaskOutput", bool, False
        )
        return [f"{function.uid}_Output_{index}" for index in range(1 + (masked or function.operation == _TOP))]

    def results(self) -> list[str]:
        """Return the uids of the outputs of the function that was saved, as the original calls them."""
        root = self.composite.functions[self.composite.root]
        outputs = self.outputs(root)
        own = root.block is not None
        return [f"{root.uid}_Output_{index}" for index in range(len(outputs))] if own else list(outputs)

    # -- order --------------------------------------------------------------------------------------------

    def needed(self, function: Function) -> Iterator[Function]:
        """Return what has to be computed before a function: a delay in a loop does not wait for its input."""
        waits = function.operation not in (PAST, FUTURE) or not self._depends_on_itself(function)
        return self._sources(function.inputs if waits else function.inputs[1:])

    def _sources(self, uids: Sequence[str]) -> Iterator[Function]:
        for uid in uids:
            owned = self.owner(self.steps(uid)[-1])
            if owned is not None:
                yield owned[0]

    def _depends_on_itself(self, function: Function) -> bool:
        seen: set[str] = set()
        waiting = list(self._sources(function.inputs))
        while waiting:
            one = waiting.pop()
            if one.uid == function.uid:
                return True
            if one.uid not in seen:
                seen.add(one.uid)
                waiting += self._sources(one.inputs)
        return False

    def order(self) -> list[Function]:
        """Return what computes the outputs of the file, each after what it needs.

        Raises:
            ModelFormatError: there is a loop without a delay.
        """
        root = self.composite.functions[self.composite.root]
        waiting = [owned[0] for uid in reversed(self.outputs(root)) if (owned := self.owner(self.steps(uid)[-1]))]
        done: dict[str, Function] = {}
        open_: dict[str, Iterator[Function]] = {}
        while waiting:
            function = waiting.pop()
            stack = [] if function.uid in done else [function]
            while stack:
                function = stack[-1]
                rest = open_.setdefault(function.uid, self.needed(function))
                following = next((each for each in rest if each.uid not in done), None)
                if following is not None:
                    if following.uid in open_:
                        raise self.fail(f"the function '{following.uid[:80]}' depends on itself without a delay")
                    stack.append(following)
                    continue
                stack.pop()
                del open_[function.uid]
                done[function.uid] = function
                if function.operation in (PAST, FUTURE) and function.inputs:
                    owned = self.owner(self.steps(function.inputs[0])[-1])
                    waiting += [] if owned is None else [owned[0]]
        return list(done.values())

    def inside(self, block: Function) -> dict[str, Function]:
        """Return the functions that a block is made of, those of blocks inside it as well.

        Raises:
            ModelFormatError: blocks lie inside each other too often.
        """
        assert block.block is not None
        given = block.block.arguments
        found: dict[str, Function] = {}
        waiting = list(self.outputs(block))
        while waiting:
            uid: str | None = waiting.pop()
            while uid is not None and uid not in given and (following := self._following(uid)) is not None:
                uid = following
            owned = None if uid is None or uid in given else self.owner(uid)
            if owned is None or owned[0].uid in found:
                continue
            self._visits -= 1
            if self._visits < 0:
                raise self.fail("its blocks lie inside each other too often")
            found[owned[0].uid] = owned[0]
            waiting += owned[0].inputs
        return found
