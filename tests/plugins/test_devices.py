"""What is said where no engine computes on the device that somebody asks for."""

from __future__ import annotations

import pytest

from cntk_core.errors import PluginUnavailableError
from cntk_core.plugins.manager import PluginManager

GPU = """
from cntk_core.api import ExecutionEngine


class Engine(ExecutionEngine):
    requires_api = "1.0"

    @classmethod
    def devices(cls):
        return (0,)

    def compile(self, plan, store, rule=None, *, seed=0):
        raise NotImplementedError
"""


def refused(manager: PluginManager, device: object) -> str:
    with pytest.raises(PluginUnavailableError) as caught:
        manager.engine("auto", device=device)
    return str(caught.value)


def test_devices_that_no_engine_has(install):
    install("my-cpu", {"cntk.engines": {"mine": "my_cpu:Engine"}})
    install("my-gpu", {"cntk.engines": {"far": "my_gpu:Away", "too": "my_gpu:Away"}})
    manager = PluginManager()
    assert refused(manager, 0) == (
        "deviceId=0 asks for a GPU, and no engine can compute on one here\n"
        "    Give deviceId=-1 (CPU) or deviceId=auto.\n"
        "    engine 'far' from my-gpu 0.1.0: no device Use engine = \"cpu\".\n"
        "    engine 'too' from my-gpu 0.1.0: no device Use engine = \"cpu\"."
    )
    assert manager.name_of_engine(manager.registry.engines.get("mine")) == "mine"
    assert manager.name_of_engine(type("Other", (), {})) == ""


def test_no_engine_computes_on_the_processor(install):
    install("my-gpu", {"cntk.engines": {"near": "my_gpu:Engine"}}, GPU)
    assert refused(PluginManager(), "cpu") == (
        "deviceId=cpu asks for the processor, and no engine here computes on it\n"
        "    Install one that does, or give deviceId=auto."
    )
    assert PluginManager().engine("auto", device=0).__name__ == "Engine"
