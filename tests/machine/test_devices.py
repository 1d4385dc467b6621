from __future__ import annotations

from typing import Any

import pytest

from fib_rmsnorm.machine import devices
from fib_rmsnorm.machine.devices import choose_devices, find_properties, list_gpus


@pytest.mark.gpu
def test_the_driver_says_what_torch_says():
    import torch

    assert len(list_gpus()) == torch.cuda.device_count()
    for index, gpu in enumerate(list_gpus()):
        said: Any = torch.cuda.get_device_properties(index)
        assert (gpu.name, gpu.memory_bytes) == (said.name, said.total_memory)
        assert gpu.uuid == str(said.uuid)
        assert gpu.pci_address == (said.pci_domain_id, said.pci_bus_id, said.pci_device_id)
        assert gpu.capability == (said.major, said.minor)
        assert gpu.multiprocessors == said.multi_processor_count
        assert find_properties(f"cuda:{index}") == gpu


def test_a_torch_without_cuda_has_no_gpus(monkeypatch):
    list_gpus.cache_clear()
    monkeypatch.setattr(devices, "cuda_of_torch", lambda: None)
    try:
        assert list_gpus() == ()
        assert find_properties("cuda:0") is None
        assert [device.kind for device in choose_devices()] == ["cpu"]
    finally:
        list_gpus.cache_clear()
