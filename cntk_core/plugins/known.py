"""Which wheel of ours has a component that is not installed. Kept in step with the workspace by a test."""

from __future__ import annotations

import attrs


@attrs.frozen
class Wheel:
    """A wheel of this project.

    Attributes:
        name: distribution name.
        extra: the extra that most people need with it; empty for none.
        released: False while it is planned only.
    """

    name: str
    extra: str = ""
    released: bool = True

    @property
    def requirement(self) -> str:
        """What ``pip install`` is given, as a shell takes it."""
        return f'"{self.name}[{self.extra}]"' if self.extra else self.name

    @property
    def pip_line(self) -> str:
        """The command that installs it."""
        return f"pip install {self.requirement}"


def _table(*entries: tuple[Wheel, str]) -> dict[str, tuple[str, Wheel]]:
    return {name.casefold(): (name, wheel) for wheel, names in entries for name in names.split()}


KNOWN: dict[str, dict[str, tuple[str, Wheel]]] = {
    "engine": _table(
        (Wheel("cntk-engine-cpu"), "cpu"),
        (Wheel("cntk-engine-cuda", extra="cuda13"), "cuda"),
        (Wheel("cntk-engine-xla"), "xla"),
    ),
    "builder": _table(
        (Wheel("cntk-builder-ndl"), "NDLNetworkBuilder MEL"),
        (Wheel("cntk-builder-simple"), "SimpleNetworkBuilder"),
        (Wheel("cntk-builder-python"), "PythonNetworkBuilder"),
        (Wheel("cntk-builder-brainscript"), "BrainScriptNetworkBuilder ExperimentalNetworkBuilder"),
    ),
    "reader": _table(
        (Wheel("cntk-reader-cntk-text"), "CNTKTextFormatReader CNTKTextFormatDeserializer"),
        (Wheel("cntk-reader-binary"), "CNTKBinaryReader CNTKBinaryFormatDeserializer"),
        (Wheel("cntk-reader-mnist"), "MNISTReader"),
        (
            Wheel("cntk-reader-htk"),
            "HTKMLFReader HTKDeserializers HTKFeatureDeserializer HTKMLFDeserializer",
        ),
        (
            Wheel("cntk-reader-kaldi"),
            "Kaldi2Reader KaldiFeatureDeserializer KaldiAlignmentDeserializer",
        ),
        (Wheel("cntk-reader-uci"), "UCIFastReader"),
        (Wheel("cntk-reader-language"), "LMSequenceReader LUSequenceReader"),
        (Wheel("cntk-reader-image"), "ImageReader ImageDeserializer Base64ImageDeserializer"),
    ),
    "writer": _table(
        (Wheel("cntk-reader-binary"), "CNTKBinaryWriter"),
        (Wheel("cntk-reader-htk"), "HTKMLFWriter"),
        (Wheel("cntk-reader-language"), "LUSequenceWriter"),
    ),
    "learner": _table(
        (Wheel("cntk-learner-sgd"), "sgd none normal simple"),
        (Wheel("cntk-learner-adagrad"), "adagrad"),
        (Wheel("cntk-learner-rmsprop"), "rmsProp"),
        (Wheel("cntk-learner-fsadagrad"), "fsAdagrad"),
        (Wheel("cntk-learner-adam"), "adam adamax adadelta adamw"),
    ),
    "parallelizer": _table(
        (Wheel("cntk-parallel-data-parallel"), "DataParallelSGD"),
        (Wheel("cntk-parallel-bmuf"), "BlockMomentumSGD ModelAveragingSGD"),
        (Wheel("cntk-parallel-asgd"), "DataParallelASGD"),
    ),
    "aggregation": _table(
        (Wheel("cntk-parallel-data-parallel"), "full"),
        (Wheel("cntk-parallel-onebit"), "quantized"),
    ),
    "hook": _table((Wheel("cntk-hook-tensorboard"), "tensorboard")),
    "communicator": _table(
        (Wheel("cntk-parallel-mpi", extra="openmpi"), "mpi"),
        (Wheel("cntk-parallel-sockets"), "sockets"),
        (Wheel("cntk-parallel-simulated"), "simulated"),
        (Wheel("cntk-parallel-nccl", extra="cuda12"), "nccl ncclAllReduce"),
    ),
}
"""Kind to lower-case name to the name as CNTK spells it and its wheel."""
