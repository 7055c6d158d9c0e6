"""A Transformer with more layers begins as the one that it continues, and its new layers learn."""

import re
from dataclasses import replace

import pytest
import torch

from foveate.data.batch import Batch
from foveate.models import TransformerConfig
from foveate.models.deepening import deepened
from foveate.nn.ran import RANConfig
from foveate.nn.transformer_block import BlockConfig

BLOCK = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=24, norm="pre", dropout=0.0)
SHALLOW = TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=2)
SOURCE, TARGET = Batch.of([[3, 4, 5, 2], [6, 2]]), Batch.of([[1, 3, 7, 2], [1, 4, 2]])


@pytest.mark.parametrize("block", [BLOCK, replace(BLOCK, bias=False, activation="silu")], ids=["usual", "without bias"])
@pytest.mark.parametrize(("encoder", "decoder"), [(3, 2), (1, 3), (2, 4)])
def test_a_deeper_model_computes_the_same_and_its_new_layers_learn(
    block: BlockConfig, encoder: int, decoder: int
) -> None:
    torch.manual_seed(1)
    shallow = replace(SHALLOW, block=block)
    config = replace(shallow, encoder_layers=encoder, decoder_layers=decoder)
    before, after = shallow.build(9, 9), config.build(9, 9)
    weights = deepened(before.state_dict(), shallow, config)
    assert weights is not None
    after.load_state_dict(weights)
    torch.testing.assert_close(after(SOURCE, TARGET), before(SOURCE, TARGET))
    optimiser = torch.optim.SGD(after.parameters(), 0.1)
    for _ in range(2):  # the first step reaches the last products of a new layer, the second all others
        optimiser.zero_grad()
        after.loss(SOURCE, TARGET).backward()
        optimiser.step()
    moved = {name for name, value in after.state_dict().items() if not torch.equal(value, weights[name])}
    new = [name for name in weights if name not in before.state_dict()]
    assert len(new) == len(weights) - len(before.state_dict()) > 10
    still = [name for name in new if name not in moved and not name.endswith("key.bias")]  # softmax ignores that one
    assert still == []


def test_new_layers_are_copies_that_do_not_share_memory() -> None:
    weights = SHALLOW.build(9, 9).state_dict()
    deeper = deepened(weights, SHALLOW, replace(SHALLOW, encoder_layers=3))
    assert deeper is not None
    name = "attention.query.weight"
    assert torch.equal(deeper[f"encoder.2.{name}"], weights[f"encoder.0.{name}"])
    assert len({deeper[f"encoder.{layer}.{name}"].data_ptr() for layer in range(3)}) == 3
    assert len(deeper) > len(weights)
    assert all(deeper[name] is value for name, value in weights.items())


def test_other_differences_are_not_bridged() -> None:
    weights = SHALLOW.build(9, 9).state_dict()
    others = [
        SHALLOW,
        replace(SHALLOW, decoder_layers=1, encoder_layers=2),
        replace(SHALLOW, encoder_layers=2, share="none"),
        replace(SHALLOW, encoder_layers=2, block=replace(BLOCK, num_heads=4)),
    ]
    assert [deepened(weights, SHALLOW, each) for each in others] == [None] * len(others)
    dropout = replace(SHALLOW, encoder_layers=2, block=replace(BLOCK, dropout=0.3))
    assert deepened(weights, SHALLOW, dropout) is not None, "dropout has no weights"


def test_another_encoder_grows_with_its_decoder_only() -> None:
    config = replace(SHALLOW, encoder=RANConfig(model_dim=16, num_heads=2, window=4))
    weights = config.build(9, 9).state_dict()
    assert deepened(weights, config, replace(config, encoder_layers=5)) is None
    deeper = deepened(weights, config, replace(config, decoder_layers=3))
    assert deeper is not None
    assert {name.split(".")[1] for name in deeper if name not in weights} == {"2"}


def test_post_norm_is_refused_in_words() -> None:
    config = replace(SHALLOW, block=replace(BLOCK, norm="post"))
    with pytest.raises(ValueError, match=re.escape('norm = "pre" only')):
        deepened(config.build(9, 9).state_dict(), config, replace(config, encoder_layers=2))
