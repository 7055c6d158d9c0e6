"""What reaches a kernel has the type, the order and the number of rows that it reads, whatever autocast, views of
tensors and wrong calls do.
"""

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import Attention, ProductScore
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, DecodeConfig, GreedyConfig, SampleConfig, decode
from foveate.decode.candidate import leaders
from foveate.errors import UsageError
from foveate.models import GPTConfig, TransformerConfig
from foveate.models.gpt import GPT
from foveate.models.transformer import Transformer
from foveate.nn import BlockConfig, RANConfig

BLOCK = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=64, dropout=0.0)
ODD = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=100, dropout=0.0)  # no kernel for the whole step
SOURCES = Batch.of([[5, 6, 7, 2], [8, 2], [9, 5, 6, 7, 8, 2]])
VOCAB = 40
CONFIGS: dict[str, TransformerConfig] = {
    "flat encoder": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=2),
    "other encoder": TransformerConfig(block=BLOCK, decoder_layers=2, encoder=RANConfig()),
    "flat blocks": TransformerConfig(block=ODD, encoder_layers=1, decoder_layers=2),
}
SEARCHES = [GreedyConfig(max_length=8), BeamConfig(beam=2, max_length=8), SampleConfig(max_length=8)]


def transformer(config: TransformerConfig) -> Transformer:
    torch.manual_seed(0)
    return config.build(VOCAB, VOCAB).eval()


def gpt() -> GPT:
    torch.manual_seed(0)
    model = GPTConfig(block=BLOCK, num_layers=2).build(VOCAB).eval()
    assert isinstance(model, GPT)
    return model


def stepped(model: Transformer | GPT, source: Batch, steps: int = 4) -> Tensor:
    """The logits of some steps with given tokens."""
    state, logits = model.start(source), []
    for step in range(steps):
        state, answer = model.step(state, torch.arange(source.size) + 4 + step)
        logits.append(answer.float())
    return torch.stack(logits)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_translator_is_stepped_under_autocast_as_without(name: str, dtype: torch.dtype) -> None:
    model = transformer(CONFIGS[name])
    expected = stepped(model, SOURCES)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(stepped(model, SOURCES), expected, rtol=0.05, atol=0.05)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_language_model_is_stepped_under_autocast_as_without(dtype: torch.dtype) -> None:
    model, prompt = gpt(), Batch.of([[1, 5, 6], [1, 9, 4]])
    expected = stepped(model, prompt)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(stepped(model, prompt), expected, rtol=0.05, atol=0.05)


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("config", SEARCHES[:2], ids=str)
def test_a_search_under_autocast_finds_what_it_finds_without(name: str, config: DecodeConfig) -> None:
    model = transformer(CONFIGS[name])
    beam = 1 if isinstance(config, GreedyConfig) else 2
    expected = decode(model, model.start(SOURCES, beam), sentences=3, config=config)
    with torch.autocast("cpu", torch.bfloat16):
        reached = decode(model, model.start(SOURCES, beam), sentences=3, config=config)
    scores = [[one.log_probability for one in each] for each in (*expected, *reached)]
    assert torch.tensor(scores[:3]) == pytest.approx(torch.tensor(scores[3:]), abs=0.3)


@torch.no_grad()
@pytest.mark.parametrize("sentences", [2, 4])
@pytest.mark.parametrize("config", SEARCHES, ids=str)
def test_another_number_of_rows_than_the_states_is_an_error_in_words(config: DecodeConfig, sentences: int) -> None:
    beam, sources = 2 if isinstance(config, BeamConfig) else 1, Batch.of([[5, 6, 2], [8, 9, 2], [7, 5, 2]])
    for model in (transformer(CONFIGS["flat encoder"]), gpt()):
        with pytest.raises((UsageError, ValueError), match="rows"):
            decode(model, model.start(sources, beam), sentences=sentences, config=config)


@torch.no_grad()
def test_a_step_needs_a_token_for_each_row() -> None:
    for model in (transformer(CONFIGS["flat encoder"]), gpt()):
        state = model.start(Batch.of([[5, 6, 2]]))
        with pytest.raises(ValueError, match="3 tokens for a state with 1 rows"):
            model.step(state, torch.tensor([4, 5, 6]))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_all_positions_at_once_under_autocast(dtype: torch.dtype) -> None:
    model, target = transformer(CONFIGS["flat encoder"]), Batch.of([[1, 5, 2], [1, 6, 7, 8, 2], [1, 2]])
    expected = model(SOURCES, target)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(model(SOURCES, target).float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_an_attention_under_autocast(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 32, 32).unbind()
    expected = Attention().run(query, key, value)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(Attention().run(query, key, value).float(), expected, rtol=0.05, atol=0.05)


class Narrow(ProductScore):
    """Features of another width than queries and keys."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(width, features) / width**0.5)

    def query_features(self, query: Tensor) -> Tensor:
        return query @ self.matrix

    def key_features(self, key: Tensor) -> Tensor:
        return key @ self.matrix


@torch.no_grad()
@pytest.mark.parametrize("features", [24, 16, 272])
def test_features_of_another_width_are_multiplied_as_by_the_definition(features: int) -> None:
    torch.manual_seed(0)
    attention = Attention(Narrow(32, features))
    query, key, value = torch.randn(2, 2, 20, 32), torch.randn(2, 2, 20, 32), torch.randn(2, 2, 20, features)
    weights = attention.explain(query, key, value).weights
    torch.testing.assert_close(attention.run(query, key, value), weights @ value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_candidates_do_not_depend_on_the_default_type(dtype: torch.dtype) -> None:
    logits = torch.randn(64, 3200, generator=torch.Generator().manual_seed(0))
    expected = leaders(logits, (3,), 4)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        reached = leaders(logits, (3,), 4)
    finally:
        torch.set_default_dtype(before)
    assert (expected is None) == (reached is None)
    if expected is not None and reached is not None:
        for one, other in zip(expected, reached, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("config", SEARCHES[:2], ids=str)
def test_lengths_may_be_a_view(config: DecodeConfig) -> None:
    model, beam = transformer(CONFIGS["flat encoder"]), 1 if isinstance(config, GreedyConfig) else 2
    lengths = torch.stack([torch.full_like(SOURCES.lengths, 90), SOURCES.lengths], 1)[:, 1]
    strided = Batch(SOURCES.ids, lengths)
    expected, reached = (
        decode(model, model.start(each, beam), sentences=3, config=config) for each in (SOURCES, strided)
    )
    assert reached == expected
    torch.testing.assert_close(stepped(model, strided), stepped(model, SOURCES), rtol=0, atol=0)


@torch.no_grad()
def test_flights_leave_transposed_embeddings_to_the_layers() -> None:
    model = transformer(TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1, share="none"))
    kernel = model.begin_flight(4, 1) is not None
    weight = model.source_embedding.weight
    model.source_embedding.weight = nn.Parameter(weight.detach().T.contiguous().T)
    assert model.begin_flight(4, 1) is None
    model.source_embedding.weight = nn.Parameter(weight.detach().clone())
    assert (model.begin_flight(4, 1) is not None) == kernel
