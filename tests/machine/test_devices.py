from typing import Any

import pytest

from fib_rmsnorm.machine import devices
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import Device, choose_devices, find_properties, list_amd_gpus, list_gpus
from fib_rmsnorm.registry import Registry


@pytest.mark.gpu
def test_the_driver_says_what_torch_says():
    import torch

    assert len(list_gpus()) == torch.cuda.device_count()
    for index, gpu in enumerate(list_gpus()):
        said: Any = torch.cuda.get_device_properties(index)
        assert (gpu.name, gpu.memory_bytes) == (said.name, said.total_memory)
        assert gpu.uuid == str(said.uuid)
        assert gpu.pci_address == (said.pci_domain_id, said.pci_bus_id, said.pci_device_id)
        assert gpu.arch == f"sm_{said.major}{said.minor}"
        assert gpu.multiprocessors == said.multi_processor_count
        assert find_properties(f"cuda:{index}") == gpu


def test_a_torch_without_cuda_has_no_gpus(monkeypatch):
    list_gpus.cache_clear()
    monkeypatch.setattr(devices, "version_of_torch", lambda _: None)
    try:
        assert list_gpus() == ()
        assert find_properties("cuda:0") is None
        assert [device.kind for device in choose_devices()] == ["cpu"]
    finally:
        list_gpus.cache_clear()


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ["AMD Instinct MI300X OAM", "AMD gfx942", "AMD gfx90a"]),
        ({"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "2, 0"}, ["AMD gfx90a", "AMD Instinct MI300X OAM"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000009,2", "CUDA_VISIBLE_DEVICES": "1"}, ["AMD gfx90a"]),
    ],
)
def test_amds_gpus_are_listed_in_the_order_of_their_nodes(tmp_path, monkeypatch, variables, names):
    rest = "simd_count 1216\nsimd_per_cu 4\ndomain 0\nlocation_id 25856\n"
    for node, version in {0: 0, 10: 90010, 9: 90402, 2: 90402}.items():  # 0 is a CPU
        (card := tmp_path / f"class/drm/renderD{node}/device").mkdir(parents=True)
        (folder := tmp_path / f"class/kfd/kfd/topology/nodes/{node}").mkdir(parents=True)
        (card / "mem_info_vram_total").write_text("192\n")
        of_node = f"gfx_target_version {version}\nunique_id {node}\ndrm_render_minor {node}\n"
        (folder / "properties").write_text(rest + of_node)
    (tmp_path / "class/drm/renderD2/device/product_name").write_text("AMD Instinct MI300X OAM\n")
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = list_amd_gpus(tmp_path)
    assert [gpu.name for gpu in found] == names
    assert {(gpu.memory_bytes, gpu.multiprocessors, gpu.pci_address) for gpu in found} == {(192, 304, (0, 101, 0))}


@pytest.mark.parametrize("name", ["cuda_vec16", "tilelang_row", "python_cutedsl", "python_flashinfer", "triton_row"])
def test_what_needs_an_nvidia_gpu_is_skipped_on_amds(name):
    reason = reason_to_skip(Registry.find().packed_solutions()[f"rmsnorm_{name}_v1"], Device("cuda:0", "AMD gfx942", 1))
    assert reason == (None if name == "triton_row" else "needs an NVIDIA GPU to run")
