"""The same bits whatever the number of threads, and folders whose tests need one thread only."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """For models so small that threads would only wait for each other: a conftest.py imports it for its folder."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def with_threads(n_threads, compute):
    """What `compute()` returns while PyTorch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        return compute()
    finally:
        torch.set_num_threads(before)


def same_with_any_threads(compute, numbers=(1, 2, 3)):
    """Asserts that the tensors `compute()` returns are equal to the bit, and returns those of the first number."""
    first, *others = [with_threads(n_threads, compute) for n_threads in numbers]
    for other in others:
        assert len(first) == len(other) and all(torch.equal(a, b) for a, b in zip(first, other))
    return first


def marginals_and_product(structure, potentials, regularizer, lengths):
    """The marginals, and the Hessian product along twice them."""
    marginals = structure.argmax(potentials, regularizer, lengths=lengths)
    (product,) = torch.autograd.grad(marginals.square().sum(), potentials)
    return marginals.detach(), product
