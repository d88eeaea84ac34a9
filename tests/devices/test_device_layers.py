"""Every attention layer never makes the host wait for a device, and makes its tensors where its inputs are."""

import pytest
import torch
from attention import test_every_layer
from attention.test_every_layer import LAYERS
from devices.host_reads import devices, fake, fake_cuda, host_reads, standing_in_for_a_device

# The one layer whose work depends on the data: it calls the model once for each place of the largest support.
READS = {"marginalize": ["_local_scalar_dense"]}


@pytest.fixture
def on_fake_cuda(monkeypatch):
    """Moves the table of layers to tensors without numbers, and back."""
    with fake_cuda(), monkeypatch.context() as patched:
        for name in ("LENGTHS", "TOKENS", "WORDS"):
            patched.setattr(test_every_layer, name, fake(getattr(test_every_layer, name)))
        for layer, _ in LAYERS.values():
            for module in layer.modules():
                for table in (module._parameters, module._buffers):
                    for key, tensor in table.items():
                        if tensor is not None:
                            patched.setitem(table, key, fake(tensor))
        yield


@pytest.mark.parametrize("name", LAYERS)
def test_layers_read_nothing(name, monkeypatch):
    layer, run = LAYERS[name]
    inputs = [torch.randn(2, n, 4, requires_grad=True) for n in (3, 5)]
    leaves = [*inputs, *layer.parameters()]

    def both(*leaves):
        output = run(*inputs)
        torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)

    with standing_in_for_a_device(monkeypatch):
        found = host_reads(both, *leaves)
    assert [read.partition(" ")[0] for read in found] == READS.get(name, [])
    assert set(found.values()) <= {1}


# The call of "copy" in the table makes its tokens on the CPU, and a shape of "marginalize" depends on numbers.
@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("copy", "marginalize")])
def test_results_stay_on_cuda(name, on_fake_cuda):
    _, run = LAYERS[name]
    assert devices(run(*(fake(torch.empty(2, n, 4)) for n in (3, 5)))) == {"cuda"}
