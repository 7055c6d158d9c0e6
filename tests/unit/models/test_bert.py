"""BERT: padding and company change nothing, segments and positions do."""

import pytest
import torch

from foveate.data.batch import Batch
from foveate.errors import DataError
from foveate.models.bert import BERT, BERTConfig
from foveate.models.bert_hugging_face import to_bert
from foveate.models.bert_kin import ROBERTA_HEAD, as_bert
from foveate.nn import BlockConfig

TEXTS = [[5, 6, 7, 8, 2], [9, 2], [4, 4, 10, 2, 3, 9, 8, 5]]
SAME = {"atol": 1e-11, "rtol": 0}


@pytest.fixture(params=["post", "pre"])
def model(request: pytest.FixtureRequest) -> BERT:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm=request.param, activation="gelu")
    return BERTConfig(block=block, num_layers=2, max_length=16).build(13).double().eval()


@torch.no_grad()
def test_predictions_do_not_depend_on_padding_or_company(model: BERT) -> None:
    alone = torch.cat([model(Batch.of([text])) for text in TEXTS])
    together = Batch.of(TEXTS)
    torch.testing.assert_close(model(together), alone, **SAME)
    wide = Batch(torch.nn.functional.pad(together.ids, (0, 7), value=11), together.lengths)
    torch.testing.assert_close(model(wide), alone, **SAME)
    pooled = torch.cat([model.pooled(*model.encode(Batch.of([text]))) for text in TEXTS])
    torch.testing.assert_close(model.pooled(*model.encode(wide)), pooled, **SAME)


@torch.no_grad()
def test_segments_and_order_are_seen(model: BERT) -> None:
    text = Batch.of([TEXTS[0]])
    plain = model(text)
    assert torch.equal(model(text, torch.zeros_like(text.ids)), plain)
    assert not torch.allclose(model(text, torch.tensor([[0, 0, 0, 1, 1]])), plain)
    assert not torch.allclose(model(Batch.of([[6, 5, 7, 8, 2]]))[2:], plain[2:])


def test_too_long_a_text_is_refused(model: BERT) -> None:
    with pytest.raises(ValueError, match="17 tokens, but the model has 16 positions"):
        model(Batch.of([[4] * 17]))


def test_the_published_model_has_as_many_parameters_as_published() -> None:
    with torch.device("meta"):
        assert 109e6 < BERTConfig.base().build(30522).parameter_count() < 111e6


def test_the_head_of_a_roberta_has_gelu_whatever_its_blocks_have() -> None:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, activation="relu")
    config, tensors = to_bert(BERTConfig(block=block, num_layers=1, max_length=16).build(13))
    dense = {theirs: ours for theirs, ours in ROBERTA_HEAD.items() if theirs.endswith("dense.")}
    headed = tensors | {f"{theirs}weight": tensors[f"{ours}weight"] for theirs, ours in dense.items()}
    config |= {"model_type": "roberta", "pad_token_id": 1}
    assert as_bert(config, tensors)[0]["hidden_act"] == "relu"
    with pytest.raises(DataError, match="hidden_act='relu', which this model does not support; it needs 'gelu'"):
        as_bert(config, headed)
