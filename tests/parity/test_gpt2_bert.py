"""Tiny random GPT-2 and BERT of Hugging Face, read from their files and written back: the same logits both ways."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from foveate.attention import AttentionConfig, CosineConfig
from foveate.data.batch import Batch
from foveate.decode import GreedyConfig, decode
from foveate.errors import DataError, UsageError
from foveate.models.bert import BERTConfig
from foveate.models.bert_hugging_face import read_bert, write_bert
from foveate.models.gpt import GPTConfig
from foveate.models.gpt2_hugging_face import read_gpt2, write_gpt2
from foveate.nn import BlockConfig

VOCAB = 40
LOGITS = 1e-5  # absolute, of logits up to 10: rounding of float32 sums
TEXTS = [[5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16, 17, 18, 19]]


def shaken(model: nn.Module) -> nn.Module:
    """Biases and norms too, which start as zeros and ones."""
    logging.disable_progress_bar()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(3)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "n_inner": 24}
    ends = {"bos_token_id": 2, "eos_token_id": 2}
    return shaken(GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, initializer_range=0.3, **sizes, **ends)))


@pytest.fixture
def bert() -> BertForMaskedLM:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    return shaken(
        BertForMaskedLM(
            BertConfig(vocab_size=VOCAB, initializer_range=0.3, max_position_embeddings=32, type_vocab_size=3, **sizes)
        )
    )


def segments() -> torch.Tensor:
    return (torch.arange(9) > 2).long().expand(3, -1) + (torch.arange(3) == 2).long()[:, None]


def mask_of(text: Batch) -> torch.Tensor:
    return (torch.arange(text.length) < text.lengths[:, None]).long()


@torch.no_grad()
def test_gpt2_has_the_same_logits_in_both_directions(gpt2: GPT2LMHeadModel, tmp_path: Path) -> None:
    gpt2.save_pretrained(tmp_path / "theirs")
    text = Batch.of(TEXTS)
    expected = gpt2(input_ids=text.ids, attention_mask=mask_of(text)).logits[mask_of(text).bool()]
    ours = read_gpt2(tmp_path / "theirs")
    torch.testing.assert_close(ours(text), expected, atol=LOGITS, rtol=0)
    assert expected.std() > 1

    write_gpt2(ours, tmp_path / "ours", end=2)
    back, told = GPT2LMHeadModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    again = back.eval()(input_ids=text.ids, attention_mask=mask_of(text)).logits[mask_of(text).bool()]
    torch.testing.assert_close(again, expected, atol=LOGITS, rtol=0)


@torch.no_grad()
def test_gpt2_goes_on_as_generate_does(gpt2: GPT2LMHeadModel, tmp_path: Path) -> None:
    gpt2.save_pretrained(tmp_path)
    ours = read_gpt2(tmp_path)
    for text in TEXTS:
        ids = torch.tensor([text])
        expected = gpt2.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0
        )
        config = GreedyConfig(max_length=8, forbid=())
        [[found]] = decode(ours, ours.start(Batch.of([text[:-1]])), sentences=1, config=config, begin=text[-1])
        assert list(found.tokens) == [token for token in expected[0, len(text) :].tolist() if token != 2]


@torch.no_grad()
def test_gpt2_without_the_prefix_of_its_names_is_the_same(gpt2: GPT2LMHeadModel, tmp_path: Path) -> None:
    gpt2.save_pretrained(tmp_path)
    text = Batch.of(TEXTS)
    expected = read_gpt2(tmp_path)(text)
    tensors = {
        name.removeprefix("transformer."): tensor for name, tensor in load_file(tmp_path / "model.safetensors").items()
    }
    save_file({**tensors, "h.0.attn.bias": torch.ones(1, 1, 32, 32)}, tmp_path / "model.safetensors")
    assert torch.equal(read_gpt2(tmp_path)(text), expected)


@torch.no_grad()
def test_bert_has_the_same_logits_in_both_directions(bert: BertForMaskedLM, tmp_path: Path) -> None:
    bert.save_pretrained(tmp_path / "theirs")
    text = Batch.of(TEXTS)
    given = {"input_ids": text.ids, "attention_mask": mask_of(text), "token_type_ids": segments()}
    expected = bert(**given).logits[mask_of(text).bool()]
    ours = read_bert(tmp_path / "theirs")
    torch.testing.assert_close(ours(text, segments()), expected, atol=LOGITS, rtol=0)
    assert expected.std() > 1

    write_bert(ours, tmp_path / "ours")
    back, told = BertForMaskedLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"]
    torch.testing.assert_close(back.eval()(**given).logits[mask_of(text).bool()], expected, atol=LOGITS, rtol=0)


@torch.no_grad()
def test_a_bare_bert_has_the_same_vectors_and_pooled_output(tmp_path: Path) -> None:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
    theirs = shaken(BertModel(BertConfig(vocab_size=VOCAB, initializer_range=0.3, **sizes)))
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    save_file(old, tmp_path / "model.safetensors")
    text = Batch.of(TEXTS)
    expected = theirs(input_ids=text.ids, attention_mask=mask_of(text))
    ours = read_bert(tmp_path)
    hidden, packing = ours.encode(text)
    torch.testing.assert_close(hidden, expected.last_hidden_state[mask_of(text).bool()], atol=LOGITS, rtol=0)
    torch.testing.assert_close(ours.pooled(hidden, packing), expected.pooler_output, atol=LOGITS, rtol=0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"activation_function": "tanh"}, "activation_function='tanh'"),
        ({"n_layer": 3}, r"lack blocks\.2\."),
        ({"n_layer": 1}, r"hold unknown tensors: h\.1\."),
        ({"vocab_size": 41}, "shape"),
        ({"model_type": "bert"}, "model_type='bert'"),
    ],
)
def test_another_architecture_is_refused(gpt2: GPT2LMHeadModel, tmp_path: Path, change: dict, says: str) -> None:
    gpt2.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=says):
        read_gpt2(tmp_path)


def test_what_their_architecture_cannot_express_is_not_written(tmp_path: Path) -> None:
    cosine = AttentionConfig(score=CosineConfig())
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, decoder_attention=cosine, norm="pre")
    with pytest.raises(ValueError, match="this model differs"):
        write_gpt2(GPTConfig(block=block, num_layers=1).build(9), tmp_path / "out")
    with pytest.raises(ValueError, match="this model differs"):
        write_bert(BERTConfig(block=block, num_layers=1).build(9), tmp_path / "out")
    with pytest.raises(UsageError, match="already exists"):
        write_gpt2(GPTConfig.tiny().build(9), tmp_path)
    assert not list(tmp_path.iterdir())
