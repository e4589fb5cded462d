"""DeviceStore: the numbers of a parameter store in the GPU's memory, written back when somebody asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cntk_core.api import Parameter, ParameterStore
from cntk_engine_cuda.gpu import Array, Gpu

Kind = Literal["values", "gradients", "slots"]


class DeviceStore:
    """Copies of a store's buffers. Each kind of them is newest here, there, or the same in both places.

    Args:
        gpu: the device.
        store: which store; it asks this object for its numbers from now on.
    """

    def __init__(self, gpu: Gpu, store: ParameterStore) -> None:
        self.gpu = gpu
        self.store = store
        self._arrays: dict[str, Array] = {}
        self._newest: dict[Kind, str] = {"values": "host", "gradients": "host", "slots": "host"}
        store.hold(self)

    @classmethod
    def of(cls, gpu: Gpu, store: ParameterStore) -> DeviceStore:
        """The copies of a store on a device, shared by all programs that use it."""
        holder = store.holder
        if isinstance(holder, cls) and holder.gpu is gpu and holder.store is store:
            return holder
        return cls(gpu, store)

    # -- arrays -------------------------------------------------------------------------------------------

    def buffer(self, name: str) -> Array:
        """The buffer of ``values``, ``gradients`` or a slot."""
        if name not in self._arrays:
            self._arrays[name] = self.gpu.cupy.zeros((self.store.size,), dtype=self.store.dtype)
        return self._arrays[name]

    def view(self, name: str, parameter: Parameter) -> Array:
        """A parameter's part of a buffer, in its shape."""
        first, end = self.store.range(parameter)
        return self.buffer(name)[first:end].reshape(parameter.known_shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all copies."""
        return sum(int(array.nbytes) for array in self._arrays.values())

    # -- who has the newest -------------------------------------------------------------------------------

    def fetch(self, kind: Kind) -> None:
        """Have the newest numbers of a kind here."""
        self.store.hold(self)  # another engine may have held them meanwhile
        if self._newest[kind] == "host":
            for name, array in self._raw(kind).items():
                self.buffer(name).set(array, stream=self.gpu.stream)
            # The host's arrays may change as soon as somebody asks for them.
            self.gpu.stream.synchronize()
            self._newest[kind] = "both"

    def changed(self, kind: Kind) -> None:
        """Note that the numbers here are the newest now."""
        self._newest[kind] = "device"

    def is_newest(self, kind: Kind) -> bool:
        """Whether nobody has asked for the numbers since they were changed here."""
        return self._newest[kind] == "device"

    def give_back(self, kind: Kind) -> None:
        """Write what is newer here into the store; what is there is the newest from now on."""
        if self._newest[kind] in ("device", "lent"):
            with self.gpu.current():
                for name, array in self._raw(kind).items():
                    self.buffer(name).get(out=array)
        self._newest[kind] = "host"

    def lend(self, kind: Kind) -> Array:
        """The buffer of ``values`` or ``gradients``, current, for somebody who changes it before anything else here."""
        with self.gpu.current():
            self.fetch(kind)
        self.gpu.stream.synchronize()
        self._newest[kind] = "lent"
        return self.buffer(kind)

    def _raw(self, kind: Kind) -> Mapping[str, Any]:
        return self.store.raw(kind)
