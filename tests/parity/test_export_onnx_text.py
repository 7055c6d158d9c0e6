"""Tiny random models of texts as ONNX graphs, run by ONNX Runtime alone: the same logits whatever the padding."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from foveate.attention import (
    AdditiveConfig,
    AlibiConfig,
    AttentionConfig,
    CosineConfig,
    Dot,
    Entmax,
    GaussianConfig,
    GeneralConfig,
    QKNormConfig,
    RelativeBucketsConfig,
    Rotary,
    dilated,
    window,
)
from foveate.attention.efficient import LinearConfig
from foveate.data.batch import Batch
from foveate.data.word import WordBatch
from foveate.errors import UsageError
from foveate.export import max_length, onnx_refusals, save_onnx
from foveate.models import (
    BERTConfig,
    ClassifierConfig,
    GPTConfig,
    LanguageModelConfig,
    LlamaConfig,
    RecurrentLanguageModelConfig,
)
from foveate.models.language_model import LanguageModel
from foveate.models.tagger import TaggerConfig
from foveate.nn.embed import Vectors
from foveate.nn.encoder import (
    CNNEncoderConfig,
    EncoderConfig,
    RANEncoderConfig,
    RNNEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
)
from foveate.nn.pooling import (
    AttentionPoolingConfig,
    FirstPoolingConfig,
    MaxPoolingConfig,
    MeanPoolingConfig,
    PoolingConfig,
)
from foveate.nn.position_vector import LearnedConfig, NoneConfig, UnitIntervalConfig
from foveate.nn.transformer_block import BlockConfig

VOCAB, LABELS, LETTERS = 30, 5, 12
LOGITS = 1e-5  # absolute, of logits of a few units: rounding of float32 sums
LENGTHS = [5, 1, 9, 2, 7]
BLOCK = BlockConfig(model_dim=32, num_heads=4, feedforward_dim=48, norm="pre", activation="gelu")
BERT = BERTConfig(block=replace(BLOCK, norm="post"), num_layers=2, max_length=24)


def block(**attention: Any) -> BlockConfig:
    chosen = AttentionConfig(**attention)
    return replace(BLOCK, encoder_attention=chosen, decoder_attention=chosen)


ENCODERS: dict[str, EncoderConfig | BERTConfig] = {
    "GRU": RNNEncoderConfig(hidden_dim=16),
    "LSTM, two layers": RNNEncoderConfig(hidden_dim=16, cell="lstm", num_layers=2, skip=True, layer_norm=True),
    "RNN, one direction": RNNEncoderConfig(hidden_dim=16, cell="rnn", bidirectional=False),
    "the lectures' GRU": RNNEncoderConfig(hidden_dim=16, cell="lecture_gru"),
    "CNN": CNNEncoderConfig(hidden_dim=20, width=5, num_layers=3),
    "each word alone": WindowEncoderConfig(hidden_dim=20),
    "window": WindowEncoderConfig(window=2, hidden_dim=20, num_layers=2),
    "Transformer": TransformerEncoderConfig(block=BLOCK),
    "Transformer, turned in a window": TransformerEncoderConfig(
        block=block(transforms=(Rotary(dims=4), QKNormConfig(norm="layer")), visibility=window(left=2, right=1)),
        position=NoneConfig(),
    ),
    "Transformer, additive, from 0 to 1": TransformerEncoderConfig(
        block=block(score=AdditiveConfig(), bias=RelativeBucketsConfig(num_buckets=8, max_distance=6)),
        position=UnitIntervalConfig(),
    ),
    "Transformer, cosine, post-norm": TransformerEncoderConfig(
        block=replace(block(score=CosineConfig(beta=5.0, learned=True), bias=GaussianConfig(sigma=2.0)), norm="post"),
        position=LearnedConfig(max_length=12),
    ),
    "BERT": BERT,
}
POOLINGS: dict[str, PoolingConfig] = {
    "additive": AttentionPoolingConfig(),
    "general": AttentionPoolingConfig(attention=AttentionConfig(score=GeneralConfig())),
    "dot": AttentionPoolingConfig(attention=AttentionConfig(score=Dot())),
    "mean": MeanPoolingConfig(),
    "max": MaxPoolingConfig(),
    "first": FirstPoolingConfig(),
}
LANGUAGE_MODELS: dict[str, LanguageModelConfig] = {
    "GPT": GPTConfig(block=replace(BLOCK, activation="gelu_tanh"), num_layers=2, position=LearnedConfig(max_length=20)),
    "GPT, turned, with its own output": GPTConfig(
        block=block(transforms=(QKNormConfig(), Rotary(layout="halves"))),
        num_layers=2,
        position=NoneConfig(),
        tied=False,
    ),
    "GPT, far places punished": GPTConfig(
        block=replace(block(bias=AlibiConfig(), visibility=window(left=3, right=0)), norm="post"), num_layers=2
    ),
    "GPT, cosines of one length": GPTConfig(
        block=block(score=GeneralConfig(), transforms=(QKNormConfig(norm="l2"),)), num_layers=1
    ),
    "Llama": LlamaConfig(
        model_dim=32, num_heads=4, num_kv_heads=2, head_dim=6, feedforward_dim=48, num_layers=2, max_length=20
    ),
    "RNN": RecurrentLanguageModelConfig(embedding_dim=16, hidden_dim=24, cell="rnn", num_layers=2, skip=True),
    "LSTM, tied": RecurrentLanguageModelConfig(
        embedding_dim=24, hidden_dim=24, num_layers=2, skip=True, layer_norm=True, tied=True
    ),
    "GRU": RecurrentLanguageModelConfig(embedding_dim=16, hidden_dim=24, cell="gru"),
}


@pytest.fixture
def texts() -> Batch:
    return random_texts(VOCAB, LENGTHS)


def random_texts(vocab: int, lengths: list[int]) -> Batch:
    generator = torch.Generator().manual_seed(11)
    return Batch.of([torch.randint(4, vocab, (length,), generator=generator).tolist() for length in lengths])


def shaken(model: nn.Module) -> Any:
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def session(model: nn.Module, folder: Path) -> onnxruntime.InferenceSession:
    save_onnx(model, folder)
    (path,) = folder.iterdir()
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(session: Any, **given: torch.Tensor) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {name: value.numpy() for name, value in given.items()}), strict=True))


def real(found: np.ndarray, lengths: torch.Tensor) -> torch.Tensor:
    """Without padding, text after text."""
    return torch.cat([torch.from_numpy(row[:length]) for row, length in zip(found, lengths.tolist(), strict=True)])


def require_equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 0.1  # there is something to compare
    torch.testing.assert_close(found, expected, atol=LOGITS, rtol=0)


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "BERT"])
def test_a_tagger_says_the_same_of_every_word(name: str, texts: Batch, tmp_path: Path) -> None:
    config = TaggerConfig(encoder=ENCODERS[name], embedding_dim=12, character_dim=8)
    model = shaken(config.build(VOCAB, LABELS, LETTERS))
    forms = random_texts(LETTERS, [3, 9, 4, 5] * 7)
    drawn = texts.ids.clamp(max=27).flatten()
    spelt = Batch(forms.ids[drawn], forms.lengths[drawn])
    batch = WordBatch(Batch(torch.arange(spelt.size).view_as(texts.ids), texts.lengths), texts.ids.flatten(), spelt)
    with torch.inference_mode():
        expected = model(batch)
    given = {
        "words": texts.ids,
        "lengths": texts.lengths,
        "spellings": spelt.ids.unflatten(0, texts.ids.shape),
        "spelling_lengths": spelt.lengths.view_as(texts.ids),
    }
    require_equal(real(run(session(model, tmp_path / "to"), **given)["logits"], texts.lengths), expected)


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "BERT"])
def test_a_tagger_of_vectors_says_the_same_of_every_vector(name: str, texts: Batch, tmp_path: Path) -> None:
    model = shaken(TaggerConfig(encoder=ENCODERS[name], embedding_dim=12).build_frames(Vectors(6), LABELS))
    values = torch.randn(*texts.ids.shape, 6, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = model(Batch(values, texts.lengths))
    found = run(session(model, tmp_path / "to"), features=values, lengths=texts.lengths)["logits"]
    require_equal(real(found, texts.lengths), expected)


def test_a_tagger_without_spellings_asks_for_none(texts: Batch, tmp_path: Path) -> None:
    model = shaken(TaggerConfig(character_dim=0, embedding_dim=12).build(VOCAB, LABELS))
    loaded = session(model, tmp_path / "to")
    assert [each.name for each in loaded.get_inputs()] == ["words", "lengths"]
    packed = WordBatch(
        Batch(torch.arange(texts.ids.numel()).view_as(texts.ids), texts.lengths), texts.ids.flatten(), texts
    )
    with torch.inference_mode():
        expected = model(packed)
    found = run(loaded, words=texts.ids, lengths=texts.lengths)["logits"]
    require_equal(real(found, texts.lengths), expected)


def test_a_tagger_of_pieces_says_the_same_of_every_piece(texts: Batch, tmp_path: Path) -> None:
    model = shaken(TaggerConfig(encoder=BERT).build(VOCAB, LABELS, VOCAB - 1))
    with torch.inference_mode():
        expected = model.output(model.encoder.encode(texts)[0])
    found = run(session(model, tmp_path / "to"), pieces=texts.ids, lengths=texts.lengths)["logits"]
    require_equal(real(found, texts.lengths), expected)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_classifier_says_the_same_of_every_text(name: str, texts: Batch, tmp_path: Path) -> None:
    model = shaken(ClassifierConfig(encoder=ENCODERS[name], embedding_dim=12).build(VOCAB, LABELS))
    with torch.inference_mode():
        expected = model(texts)
    require_equal(
        torch.from_numpy(run(session(model, tmp_path / "to"), tokens=texts.ids, lengths=texts.lengths)["logits"]),
        expected,
    )


@pytest.mark.parametrize("kinds", [1, 2])
def test_the_second_text_of_a_pair_begins_after_the_first_end(kinds: int, tmp_path: Path) -> None:
    model = shaken(ClassifierConfig(encoder=replace(BERT, num_segments=kinds)).build(VOCAB, LABELS))
    texts = Batch.of([[1, 7, 9, 2, 8, 5, 2], [1, 4, 2], [1, 9, 2, 7, 2]])
    second = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]])
    with torch.inference_mode():
        hidden, packing = model.encoder.encode(texts, second.clamp(max=kinds - 1))
        expected = model.output(model.pooling(hidden, packing=packing))
    found = run(session(model, tmp_path / "to"), tokens=texts.ids, lengths=texts.lengths)["logits"]
    require_equal(torch.from_numpy(found), expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_every_pooling_is_the_same_and_attention_shows_its_weights(name: str, texts: Batch, tmp_path: Path) -> None:
    config = ClassifierConfig(encoder=ENCODERS["window"], pooling=POOLINGS[name], embedding_dim=12)
    model = shaken(config.build(VOCAB, LABELS))
    with torch.inference_mode():
        expected = model(texts)
    found = run(session(model, tmp_path / "to"), tokens=texts.ids, lengths=texts.lengths)
    require_equal(torch.from_numpy(found["logits"]), expected)
    assert ("weights" in found) == isinstance(POOLINGS[name], AttentionPoolingConfig)
    if "weights" in found:
        visible = np.arange(texts.length) < texts.lengths[:, None].numpy()
        np.testing.assert_allclose(found["weights"].sum(1), 1.0, atol=1e-6)
        assert not found["weights"][~visible].any()


@pytest.mark.parametrize("name", POOLINGS)
def test_a_text_without_tokens_is_pooled_to_zeros(name: str, tmp_path: Path) -> None:
    config = ClassifierConfig(encoder=ENCODERS["window"], pooling=POOLINGS[name], embedding_dim=12)
    model, texts = shaken(config.build(VOCAB, LABELS)), random_texts(VOCAB, [3, 0])
    with torch.inference_mode():
        expected = model(texts)
    found = run(session(model, tmp_path / "to"), tokens=texts.ids, lengths=texts.lengths)
    require_equal(torch.from_numpy(found["logits"]), expected)
    assert torch.equal(expected[1], model.output.bias)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gaps_are_filled_alike_in_both_sentences_of_a_pair(norm: Any, texts: Batch, tmp_path: Path) -> None:
    config = replace(BERT, block=replace(BERT.block, norm=norm, activation="relu"))
    model = shaken(config.build(VOCAB))
    segments = (torch.arange(texts.length) > 2).long().expand_as(texts.ids)
    with torch.inference_mode():
        expected = model(texts, segments)
    found = run(
        session(model, tmp_path / "to"), tokens=texts.ids, lengths=texts.lengths, segments=segments.contiguous()
    )
    require_equal(real(found["logits"], texts.lengths), expected)


def beginning(loaded: Any, rows: int) -> dict[str, torch.Tensor]:
    """The state before the first token: zeros, and no past."""
    sizes = {"rows": rows, "past": 0}
    return {
        each.name: torch.zeros([sizes.get(size, size) for size in each.shape])
        for each in loaded.get_inputs()
        if each.name.startswith("state.")
    }


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_prompt_is_read_at_once_and_gone_on_from_step_by_step(name: str, tmp_path: Path) -> None:
    model: LanguageModel = shaken(LANGUAGE_MODELS[name].build(VOCAB))
    loaded, prompt = session(model, tmp_path / "to"), random_texts(VOCAB, [6, 6, 6])
    token, rows = prompt.ids[:, -1], torch.arange(3)
    found = run(loaded, tokens=prompt.ids, **beginning(loaded, 3))
    with torch.inference_mode():
        whole = model(prompt)
        require_equal(torch.from_numpy(found["logits"]).flatten(0, 1), whole)
        state = model.start(Batch(prompt.ids[:, :-1], prompt.lengths - 1))
        for time in range(8):
            state, expected = model.step(state, token)
            require_equal(torch.from_numpy(found["logits"][:, -1]), expected)
            token = (expected.argmax(1) + torch.arange(len(rows))) % VOCAB
            kept = {
                key.removeprefix("new."): torch.from_numpy(value) for key, value in found.items() if key != "logits"
            }
            if time == 3:
                rows = torch.tensor([2, 0])
                state, token, kept = model.select(state, rows), token[rows], {k: v[rows] for k, v in kept.items()}
            found = run(loaded, tokens=token[:, None].contiguous(), **{k: v.contiguous() for k, v in kept.items()})


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_texts_of_different_lengths_are_scored_together(name: str, texts: Batch, tmp_path: Path) -> None:
    model = shaken(LANGUAGE_MODELS[name].build(VOCAB))
    loaded = session(model, tmp_path / "to")
    with torch.inference_mode():
        expected = model(texts)
    found = run(loaded, tokens=texts.ids, **beginning(loaded, texts.size))["logits"]
    require_equal(real(found, texts.lengths), expected)


def test_a_place_beyond_the_table_is_an_error_and_not_a_wrong_answer(tmp_path: Path) -> None:
    model = shaken(LANGUAGE_MODELS["GPT"].build(VOCAB))
    loaded = session(model, tmp_path / "to")
    assert max_length(model) == 20
    with pytest.raises(Exception, match="out of data bounds"):
        run(loaded, tokens=torch.ones(1, 21, dtype=torch.int64), **beginning(loaded, 1))


def test_limits_are_those_of_tables() -> None:
    assert max_length(LANGUAGE_MODELS["RNN"].build(VOCAB)) is None
    assert max_length(LANGUAGE_MODELS["GPT, turned, with its own output"].build(VOCAB)) == 2048
    for name, limit in (
        ("CNN", None),
        ("BERT", 24),
        ("Transformer", 2048),
        ("Transformer, additive, from 0 to 1", None),
    ):
        assert max_length(ClassifierConfig(encoder=ENCODERS[name]).build(VOCAB, LABELS)) == limit


def test_a_table_that_all_layers_use_is_stored_once(tmp_path: Path) -> None:
    config = GPTConfig(block=block(transforms=(Rotary(),)), num_layers=6, position=NoneConfig())
    save_onnx(config.build(VOCAB), tmp_path / "to")
    constants = onnx.load(tmp_path / "to" / "step.onnx").graph.initializer
    assert sum(each.dims[:1] == [2048] for each in constants) == 2  # cosines and sines


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            ClassifierConfig(encoder=RANEncoderConfig(model_dim=32)).build(VOCAB, LABELS),
            "its encoder is a recurrent attention network",
        ),
        (
            TaggerConfig(encoder=TransformerEncoderConfig(block=block(normaliser=Entmax()))).build(VOCAB, LABELS, 9),
            "layer 0: its normaliser is Entmax",
        ),
        (
            GPTConfig(block=block(visibility=dilated(left=2, right=0, step=2)), num_layers=1).build(VOCAB),
            r"layer 0: its visibility contains dilated\(left=2, right=0, step=2\)",
        ),
        (
            GPTConfig(block=replace(BLOCK, decoder_attention=LinearConfig()), num_layers=1).build(VOCAB),
            "layer 0: LinearAttention has its own formula",
        ),
        (
            ClassifierConfig(pooling=AttentionPoolingConfig(attention=AttentionConfig(bias=AlibiConfig()))).build(
                VOCAB, LABELS
            ),
            "pooling: it has a bias",
        ),
        (nn.Linear(2, 2), "Linear is unknown"),
    ],
)
def test_what_has_no_graph_is_refused_with_the_reason(model: nn.Module, reason: str, tmp_path: Path) -> None:
    max_length(model)
    with pytest.raises(UsageError, match=f"ONNX cannot express this model: .*{reason}.*own engine"):
        save_onnx(model, tmp_path / "to")
    assert onnx_refusals(model)
    assert not list(tmp_path.iterdir())
