"""Tiny random Llamas of Hugging Face, read from their files and written back: the same logits both ways."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig as TheirConfig
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from foveate import Generator
from foveate.attention import AttentionConfig, CosineConfig, Rotary
from foveate.cli import main
from foveate.data.batch import Batch
from foveate.data.tokeniser import HuggingFaceTokeniser
from foveate.decode import GreedyConfig, decode
from foveate.errors import DataError
from foveate.models import LlamaConfig
from foveate.models.llama_hugging_face import read_llama, write_llama

VOCAB = 40
LOGITS = 1e-5  # absolute, of logits up to 10: rounding of float32 sums
TEXTS = [[5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16, 17, 18, 19]]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "usual": {},
    "grouped": {"num_key_value_heads": 2},
    "one head of keys": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "wide heads": {"head_dim": 6, "attention_bias": True},
    "far positions": {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}, "rms_norm_eps": 1e-5},
}
each = pytest.mark.parametrize("settings", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())


def shaken(settings: dict[str, Any], vocab: int = VOCAB) -> Any:
    """A model whose norms are not ones and whose biases are not zeros."""
    logging.disable_progress_bar()
    torch.manual_seed(3)
    config = TheirConfig(vocab_size=vocab, initializer_range=0.3, max_position_embeddings=64, **{**SIZES, **settings})
    model: nn.Module = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def logits_of(model: Any, text: Batch) -> torch.Tensor:
    mask = torch.arange(text.length) < text.lengths[:, None]
    return model(input_ids=text.ids, attention_mask=mask.long()).logits[mask]


@each
@torch.no_grad()
def test_llama_has_the_same_logits_in_both_directions(settings: dict[str, Any], tmp_path: Path) -> None:
    theirs, text = shaken(settings), Batch.of(TEXTS)
    theirs.save_pretrained(tmp_path / "theirs")
    expected = logits_of(theirs, text)
    ours = read_llama(tmp_path / "theirs")
    torch.testing.assert_close(ours(text), expected, atol=LOGITS, rtol=0)
    assert expected.std() > 1

    write_llama(ours, tmp_path / "ours", begin=1, end=2)
    loaded: Any = LlamaForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    back, told = loaded
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    torch.testing.assert_close(logits_of(back.eval(), text), expected, atol=LOGITS, rtol=0)


@torch.no_grad()
def test_it_goes_on_as_generate_does(tmp_path: Path) -> None:
    theirs = shaken(ARCHITECTURES["grouped"])
    theirs.save_pretrained(tmp_path)
    ours = read_llama(tmp_path)
    for text in TEXTS:
        ids = torch.tensor([text])
        expected = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0
        )
        config = GreedyConfig(max_length=8, forbid=())
        [[found]] = decode(ours, ours.start(Batch.of([text[:-1]])), sentences=1, config=config, begin=text[-1])
        assert list(found.tokens) == [token for token in expected[0, len(text) :].tolist() if token != 2]


@torch.no_grad()
def test_weights_in_several_files_are_those_of_one(tmp_path: Path) -> None:
    theirs, text = shaken({}), Batch.of(TEXTS)
    theirs.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    torch.testing.assert_close(read_llama(tmp_path)(text), logits_of(theirs, text), atol=LOGITS, rtol=0)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    index.write_text(json.dumps({"weight_map": {name: "../" + file for name, file in content["weight_map"].items()}}))
    with pytest.raises(DataError, match="does not name the weight files"):
        read_llama(tmp_path)
    index.write_text(json.dumps(content))
    next(tmp_path.glob("*-00002-of-*")).unlink()
    with pytest.raises(DataError, match="has no model-00002-of-"):
        read_llama(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}}, "rope_type='llama3'"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type='linear'"),
        ({"mlp_bias": True}, "mlp_bias=True"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"model_type": "mistral"}, "model_type='mistral'"),
        ({"num_hidden_layers": 3}, r"lack blocks\.2\."),
        ({"num_key_value_heads": 2}, "shape"),
    ],
)
def test_another_architecture_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    shaken({}).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=says):
        read_llama(tmp_path)


@torch.no_grad()
def test_settings_of_older_files_are_read(tmp_path: Path) -> None:
    theirs, text = shaken(ARCHITECTURES["far positions"]), Batch.of(TEXTS)
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    content |= {"rope_theta": content.pop("rope_parameters")["rope_theta"], "rope_scaling": None}
    path.write_text(json.dumps(content))
    torch.testing.assert_close(read_llama(tmp_path)(text), logits_of(theirs, text), atol=LOGITS, rtol=0)


@pytest.mark.parametrize(
    "attention",
    [
        AttentionConfig(score=CosineConfig(), transforms=(Rotary(layout="halves"),)),
        AttentionConfig(transforms=(Rotary(),)),
        AttentionConfig(transforms=(Rotary(layout="halves", dims=2),)),
        AttentionConfig(),
    ],
)
def test_what_llama_cannot_express_is_not_written(attention: AttentionConfig, tmp_path: Path) -> None:
    small = LlamaConfig(model_dim=8, num_heads=2, num_kv_heads=1, feedforward_dim=12, num_layers=1)
    with pytest.raises(ValueError, match="this model differs"):
        write_llama(replace(small, attention=attention).build(9), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama with its tokeniser: pieces of words with bytes for what is rare, and a token that begins a text."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    lines = ["The cat sat on the mat.", "the mat the cat", "a dog ran after 3 cats"]
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    inner.train_from_iterator(lines, trainer)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    wrapped.save_pretrained(tmp_path / "llama")
    ends = {"bos_token_id": 1, "eos_token_id": 2, "num_key_value_heads": 2}
    shaken(ends, vocab=len(wrapped)).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


@torch.no_grad()
def test_a_folder_goes_on_from_the_command_line_as_generate_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, tokeniser = LlamaForCausalLM.from_pretrained(folder).eval(), HuggingFaceTokeniser.read(folder)
    prompt = "the cat"
    ids = tokeniser.framed(prompt)
    assert ids[0] == 1
    expected = theirs.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False, pad_token_id=0)[0].tolist()
    capsys.readouterr()
    assert main(["generate", str(folder), prompt, "--length", "6", "--set", "kind=greedy", "--no-tune"]) == 0
    assert capsys.readouterr().out == tokeniser.decode(expected) + "\n"


@torch.no_grad()
def test_a_text_costs_what_the_model_says(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, tokeniser = LlamaForCausalLM.from_pretrained(folder).eval(), HuggingFaceTokeniser.read(folder)
    ids = torch.tensor([tokeniser.framed("the mat\n")])
    expected = theirs(input_ids=ids, labels=ids).loss.item()
    assert Generator.load(folder).evaluate(["the mat"])["loss"] == pytest.approx(expected, rel=1e-5)
    (tmp_path / "text").write_text("the mat\n")
    capsys.readouterr()
    assert main(["evaluate", str(folder), "--text", str(tmp_path / "text"), "--json", "--no-tune"]) == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(expected, rel=1e-5)
