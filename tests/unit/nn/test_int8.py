"""Products in int8: their definition, and a model that computes by them."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from foveate.data.batch import Batch
from foveate.errors import DataError, UsageError
from foveate.models import Transformer, TransformerConfig
from foveate.models.luong import LuongConfig
from foveate.nn import BlockConfig, int8
from foveate.nn.int8 import Int8Product
from foveate.nn.linear_layer import Linear
from foveate.nn.precision import set_precision
from foveate.nn.prepared.flat_block import FlatBlocks
from foveate.nn.prepared.flat_step import DecoderStep
from foveate.storage.rounded_weight import Quantised


def test_without_a_compiler_the_definition_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = torch.randn(7, 30), torch.randn(2, 3, 30)
    compiled = Int8Product(weight, None)(x)
    monkeypatch.setattr(int8, "kernels", lambda: None)
    torch.testing.assert_close(Int8Product(weight, None)(x), compiled, rtol=1e-6, atol=1e-6)


def _built(seed: int, norm: str, share: str) -> Transformer:
    torch.manual_seed(seed)
    block = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48, norm=norm)  # type: ignore[arg-type]
    config = TransformerConfig(block=block, encoder_layers=1, decoder_layers=1, share=share, output_bias=True)  # type: ignore[arg-type]
    return config.build(40, 40).eval()


class _Reference:
    """A model in float64 with the weights that int8 stands for, whose activations are rounded before every product."""

    def __init__(self, model: Transformer) -> None:
        self.model = copy.deepcopy(model).double()
        self.margin = 1.0
        """The least distance of an activation from the middle between two whole numbers."""
        table = Quantised.of(model.output_table).weight().double()
        for layer in self.model.modules():
            if isinstance(layer, Linear):
                layer.weight = nn.Parameter(Quantised.of(layer.weight.float()).weight().double())
                layer.register_forward_pre_hook(lambda layer, inputs: (self.rounded(inputs[0]),))
        self.model.logits = lambda hidden: linear(self.rounded(hidden), table, self.model.output_bias)  # type: ignore[method-assign]

    def rounded(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        self.margin = min(self.margin, float(((x / scale - 0.5).frac().abs() - 0.5).abs().sub(0.5).abs().min()))
        return (x / scale).round() * scale


@torch.no_grad()
def _stepped(model: Transformer) -> Tensor:
    state, logits = model.start(Batch.of([[5, 6, 7, 2], [9, 2]])), []
    for token in (1, 8, 11):
        state, last = model.step(state, torch.full((2,), token))
        logits.append(last)
    return torch.stack(logits)


@pytest.mark.parametrize("route", ["kernel", "blocks", "modules"])
@pytest.mark.parametrize(("norm", "share"), [("post", "all"), ("pre", "none")])
def test_a_step_in_int8_is_that_of_the_dequantised_model(
    route: str, norm: str, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if route != "kernel":
        monkeypatch.setattr(DecoderStep, "refuses", lambda *parts: "the test wants another route")
    if route == "modules":
        monkeypatch.setattr(FlatBlocks, "of", lambda self, blocks: None)
    compared = 0
    for seed in range(30):
        model = _built(seed, norm, share)
        reference = _Reference(model)
        expected = _stepped(reference.model)
        if reference.margin < 1e-4:
            continue  # another rounding of floats may lead to another whole number here
        model.use_int8()
        torch.testing.assert_close(_stepped(model).double(), expected, rtol=1e-5, atol=1e-5)
        compared += 1
        if compared == 4:
            return
    raise AssertionError(f"Only {compared} of 30 models had no activation in the middle between two whole numbers.")


def test_int8_is_left_while_gradients_are_computed_and_follows_changes_of_weights() -> None:
    model = _built(0, "pre", "output")
    source, target = Batch.of([[5, 6, 2]]), Batch.of([[1, 7, 2]])
    exact = model(source, target)
    model.use_int8()
    assert torch.equal(model(source, target), exact)
    with torch.no_grad():
        coarse = model(source, target)
        assert not torch.equal(coarse, exact)
        torch.testing.assert_close(coarse, exact, rtol=0.0, atol=0.2)
        model.encoder[0].feedforward.expand.weight.mul_(1.5)  # type: ignore[union-attr, operator]
        model.encoder[0].attention.value.weight.mul_(1.5)  # type: ignore[union-attr, operator]
        changed = model(source, target)
    assert (changed - coarse).abs().max() > 0.01


def test_another_precision_ends_int8() -> None:
    model = _built(0, "pre", "output")
    source, target = Batch.of([[5, 6, 2]]), Batch.of([[1, 5, 2]])
    with torch.inference_mode():
        before = model(source, target)
        set_precision(model, "int8")
        assert not torch.equal(model(source, target), before)
        set_precision(model, "float32")
        assert torch.equal(model(source, target), before)
    set_precision(model, "int8")
    set_precision(model, "bfloat16")
    with torch.inference_mode():
        assert model(source, target).dtype is torch.bfloat16


def test_threads_compute_the_same_bits() -> None:
    torch.manual_seed(0)
    product, x = Int8Product(torch.randn(1100, 256), torch.randn(1100)), torch.randn(300, 256)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(product(x))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_models_without_int8_products_and_damaged_weights_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"int8 is for Transformers that .*continue texts, not for \w+\. Choose float32"
    ):
        set_precision(LuongConfig().build(20, 20), "int8")
    with pytest.raises(UsageError, match=r"There is no precision 'int4'\. Choose one of float32, bfloat16, int8"):
        set_precision(_built(0, "pre", "all"), "int4")
    model = _built(0, "pre", "all")
    with torch.no_grad():
        model.decoder[0].feedforward.expand.weight[3, 4] = torch.inf  # type: ignore[union-attr, operator, index]
    with pytest.raises(
        DataError, match=r"decoder\.0\.feedforward\.expand has numbers that are not finite.*earlier checkpoint"
    ):
        set_precision(model, "int8")
