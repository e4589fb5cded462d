"""Devices: where values are computed."""

from __future__ import annotations

from enum import Enum, IntEnum, unique
from functools import cache
from typing import NoReturn

from cntk._inherited import inherit


@unique
class DeviceKind(IntEnum):
    """Kinds of devices."""

    CPU = 0
    GPU = 1

    __str__ = Enum.__str__


class DeviceDescriptor:
    """A device of this machine: :func:`cpu` or :func:`gpu`."""

    def __init__(self, kind: DeviceKind, number: int) -> None:
        self._kind, self._number = kind, number

    def type(self) -> int:
        """Return the number of the kind: 0 is a CPU, 1 a GPU."""
        return self._kind.value

    def id(self) -> int:
        """Return the number of the GPU; 0 of the CPU."""
        return self._number

    def is_locked(self) -> bool:
        """Whether another process has the device for itself; nobody can here."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceDescriptor) and (self._kind, self._number) == (other._kind, other._number)

    def __hash__(self) -> int:
        return hash((self._kind, self._number))

    def __repr__(self) -> str:
        return "CPU" if self._kind is DeviceKind.CPU else f"GPU[{self._number}]"

    def as_string(self) -> str:
        """Return what is printed of it."""
        return repr(self)

    @staticmethod
    def cpu_device() -> DeviceDescriptor:
        """Return the CPU; see :func:`cpu`."""
        return cpu()

    @staticmethod
    def gpu_device(device_id: int) -> DeviceDescriptor:
        """Return a GPU by its number; see :func:`gpu`."""
        return gpu(device_id)

    @staticmethod
    def all_devices() -> tuple[DeviceDescriptor, ...]:
        """Return all devices, GPUs first; see :func:`all_devices`."""
        return all_devices()

    @staticmethod
    def use_default_device() -> DeviceDescriptor:
        """Return the device that is used where none is named; see :func:`use_default_device`."""
        return use_default_device()

    @staticmethod
    def try_set_default_device(device: DeviceDescriptor, acquire_device_lock: bool = False) -> bool:
        """Use a device where none is named; see :func:`try_set_default_device`."""
        return try_set_default_device(device, acquire_device_lock)

    @staticmethod
    def set_excluded_devices(devices: list[DeviceDescriptor]) -> None:
        """Say which devices are never used; see :func:`set_excluded_devices`."""
        set_excluded_devices(devices)

    @staticmethod
    def get_gpu_properties(device: DeviceDescriptor) -> NoReturn:
        """Raise an error; see :func:`get_gpu_properties`."""
        get_gpu_properties(device)


_CHOICE: dict[str, DeviceDescriptor] = {}
_EXCLUDED: list[DeviceDescriptor] = []


def cpu() -> DeviceDescriptor:
    """Return the CPU."""
    return DeviceDescriptor(DeviceKind.CPU, 0)


def gpu(device_id: int) -> DeviceDescriptor:
    """Return a GPU by its number.

    Raises:
        ValueError: there is no such GPU that an engine could use.
    """
    if not 0 <= device_id < _count_gpus():
        raise ValueError(f"there is no GPU {device_id} that an engine here can use; `cntk doctor` says why")
    return DeviceDescriptor(DeviceKind.GPU, device_id)


@cache
def _count_gpus() -> int:
    """How many GPUs there are for programs: the one that the engine for them takes, if it can run here."""
    from cntk_core.api import CntkError
    from cntk_core.api.recipes import PluginManager

    try:
        PluginManager().engine("cuda")
    except CntkError:
        return 0
    return 1


def all_devices() -> tuple[DeviceDescriptor, ...]:
    """Return all devices, GPUs first."""
    gpus = (DeviceDescriptor(DeviceKind.GPU, number) for number in range(_count_gpus()))
    return (*gpus, cpu())


def use_default_device() -> DeviceDescriptor:
    """Return the device that is used where none is named."""
    return _CHOICE.get("device", cpu())


def try_set_default_device(new_default_device: DeviceDescriptor, acquire_device_lock: bool = False) -> bool:
    """Use a device where none is named; return whether that is possible.

    Args:
        new_default_device: the device.
        acquire_device_lock: no other process is to use it, which cannot be had of a CPU.
    """
    if acquire_device_lock and new_default_device == cpu():
        return False
    if new_default_device in _EXCLUDED or new_default_device not in all_devices():
        return False
    _CHOICE["device"] = new_default_device
    return True


def set_excluded_devices(excluded_devices: list[DeviceDescriptor]) -> None:
    """Say which devices are never used where none is named."""
    _EXCLUDED[:] = excluded_devices


def get_gpu_properties(device: DeviceDescriptor) -> NoReturn:
    """Raise an error: properties of devices are what `cntk doctor` tells.

    Raises:
        ValueError: it is no GPU.
        NotImplementedError: it is one.
    """
    if device.type() != DeviceKind.GPU.value:
        raise ValueError(f"{device} is no GPU")
    raise NotImplementedError("what a GPU is like is told by `cntk doctor`")


inherit(__name__)
