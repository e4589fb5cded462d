"""From a module in LLVM's language to an object, for the processor of this machine or for another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs

from cntk_kit_engines.processor import processor

MOST_OVERLAP_TESTS = 512
"""Tests, made before a loop over columns, that its operands and results do not overlap. With more of them, the compiler
would not make vector code; a recurrent cell has more than its usual limit of 8."""

PIPELINE = f"O3, loops made vectors of, {MOST_OVERLAP_TESTS} tests for overlaps"
"""What is done to a module, beside LLVM's version: of other code the sums may have another order."""

WITHOUT_VECTORS = "; without vectors"
"""The first line of a module whose loops are left as they are: a fifth of the time, where operands are many."""

_LONG_VECTORS = "-prefer-256-bit"
"""Compilers avoid 512 bits on these processors, since it lowers their clock; our products do that anyway."""


@attrs.frozen
class Target:
    """A processor that code is made for.

    Attributes:
        triple: architecture and system, as LLVM writes them.
        processor: its name, or that of a level (``x86-64-v3``).
        features: what is added to and taken from it.
    """

    triple: str
    processor: str
    features: str

    @property
    def identity(self) -> str:
        """All of it in one line."""
        return f"{self.triple} {self.processor} {hashlib.sha256(self.features.encode()).hexdigest()}"

    def machine(self) -> Any:
        """Return a new target machine of LLVM."""
        import llvmlite.binding as llvm

        # On x86, code of an object would look for its numbers near itself, where the loader does not always put them.
        relocation = "pic" if self.triple.startswith(("aarch64", "arm64", "powerpc")) else "default"
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.processor, features=self.features, opt=3, reloc=relocation, codemodel="jitdefault"
        )


X86_64_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "xsave")
X86_64_V4 = (*X86_64_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

LEVELS: Mapping[str, tuple[Target, tuple[str, ...]]] = {
    "x86-64-v4": (Target("x86_64-unknown-linux-gnu", "x86-64-v4", _LONG_VECTORS), X86_64_V4),
    "x86-64-v3": (Target("x86_64-unknown-linux-gnu", "x86-64-v3", ""), X86_64_V3),
    "aarch64": (Target("aarch64-unknown-linux-gnu", "generic", "+neon"), ()),
}
"""Levels that code is shipped for, the best of an architecture first, and what a processor must have for each."""


@cache
def host() -> Target:
    """The processor of this machine, with all that it can do."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    text = features.flatten()
    if features.get("avx512f"):
        text += f",{_LONG_VECTORS}"
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), text)


def level_of(triple: str, features: Mapping[str, bool]) -> str | None:
    """The best level that a processor has code of; None if nothing is shipped for it.

    Args:
        triple: architecture and system.
        features: which ones the processor has.
    """
    architecture, *rest = triple.split("-")
    if "linux" not in rest:
        return None
    for name, (target, needed) in LEVELS.items():
        if target.triple.startswith(f"{architecture}-") and all(features.get(each) for each in needed):
            return name
    return None


@cache
def host_level() -> str | None:
    """The level of this machine; None if nothing is shipped for it."""
    known = processor()
    if known is not None:
        return level_of("x86_64-unknown-linux-gnu", dict.fromkeys(known.features, True))
    import llvmlite.binding as llvm

    return level_of(llvm.get_process_triple(), llvm.get_host_cpu_features())


class CodeGenerator:
    """LLVM for one processor. It knows this machine's architecture; for another one, all have to be initialized.

    Args:
        target: the processor.
    """

    def __init__(self, target: Target) -> None:
        import llvmlite.binding as llvm

        prepare_llvm()
        self._llvm: Any = llvm
        self._machine = target.machine()

    def compile(self, text: str) -> bytes:
        """Return the object of a module.

        Raises:
            RuntimeError: LLVM does not understand the text.
        """
        llvm = self._llvm
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = not text.startswith(WITHOUT_VECTORS)
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        code: bytes = self._machine.emit_object(module)
        return code


@cache
def prepare_llvm() -> None:
    """Tell LLVM, for the whole process, how many tests for overlaps a loop is worth; numba, too, obeys."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.set_option("cntk_kit_engines", f"-runtime-memory-check-threshold={MOST_OVERLAP_TESTS}")
