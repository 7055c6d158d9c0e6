"""Products in int8 by the instructions of several processors: the same integers, and the definition."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear

from foveate import native
from foveate.native import compiler
from foveate.nn import int8
from foveate.nn.int8 import Int8Product, defined_product

INSTRUCTIONS = {
    "this processor": ((), ("-march=native", "-mprefer-vector-width=512")),
    "AVX-512 without tiles": (
        ("avx512f", "avx512_vnni"),
        ("-march=native", "-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16", "-mprefer-vector-width=512"),
    ),
    "AVX2": (("avx2", "fma"), ("-march=haswell",)),
    "AVX-VNNI": (("avx2", "fma", "avx_vnni"), ("-march=haswell", "-mavxvnni")),
    "plain": (("sse2",), ("-march=x86-64",)),
}
"""The properties of the processor and the flags of the compiler for each way to compute the sums."""
FILLS = {
    "random": lambda shape: torch.randint(-127, 128, shape),
    "largest": lambda shape: torch.full(shape, 127),
    "smallest": lambda shape: torch.full(shape, -127),
    "both": lambda shape: torch.randint(0, 2, shape) * 254 - 127,
    "zeros": lambda shape: torch.zeros(shape, dtype=torch.int64),
}


@pytest.fixture(scope="module", params=INSTRUCTIONS)
def _instructions(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernel compiled for some instructions; tests of this module leave the usual one."""
    properties, flags = INSTRUCTIONS[request.param]
    if not set(properties) <= set(native.processor().split()):
        pytest.skip(f"the processor lacks {', '.join(properties)}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_FOR_THIS_PROCESSOR", (flags,))
        native.forget()
        int8.kernels.cache_clear()
        if int8.kernels() is None:
            pytest.skip(native.load("foveate.nn.prepared", "int8.cpp").reason)
        yield
    native.forget()
    int8.kernels.cache_clear()


@pytest.mark.usefixtures("_instructions")
@settings(max_examples=80)
@given(
    sizes=st.tuples(
        st.integers(1, 14) | st.integers(15, 50),
        st.integers(1, 70) | st.integers(1030, 1100) | st.sampled_from([64, 128, 320]),  # whole tiles
        st.integers(1, 140),
    ),
    fills=st.tuples(st.sampled_from(sorted(FILLS)), st.sampled_from(sorted(FILLS))),
    seed=st.integers(0, 1000),
)
def test_every_processor_computes_the_integers_of_a_plain_sum(
    sizes: tuple[int, int, int], fills: tuple[str, str], seed: int
) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(seed)
    weight, x = (FILLS[fill](shape) for fill, shape in zip(fills, ((outputs, inputs), (rows, inputs)), strict=True))
    weight[:, 0], x[:, 0] = 127, -127  # so that scales are 1 and the numbers stay as they are
    expected = (x @ weight.T).float()
    assert torch.equal(Int8Product(weight.float(), None)(x.float()), expected)


@pytest.mark.usefixtures("_instructions")
@pytest.mark.parametrize("inputs", [5, 64, 256, 1100])
def test_a_product_is_its_definition_for_each_row_alone(inputs: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(37, inputs) * torch.logspace(-6, 6, 37)[:, None]  # more rows than two tiles have
    x[3], x[4, inputs - 1], x[5, 0] = 0.0, torch.nan, torch.inf
    product = Int8Product(torch.randn(70, inputs), torch.randn(70))
    y, expected = product(x), defined_product(x, product.quantised, product.bias)
    torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
    assert y[4:6].isnan().all()
    assert torch.equal(y[3], product.bias)
    for row in (7, 16, 36):
        assert torch.equal(product(x[row : row + 1]), y[row : row + 1])
    assert float((y[9] - linear(x[9:10], product.quantised.weight(), product.bias)).abs().max()) < 0.02 * x[9].norm()
