"""What every language model keeps to: steps are the whole, prompts are read at once, the future is unseen, and neither
padding nor company matters. All in float64, so that a difference is a mistake and not a rounding.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from foveate.attention import AlibiConfig, AttentionConfig, CosineConfig, Rotary, Sparsemax, record, window
from foveate.attention.efficient import LinearConfig, PerformerConfig
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig, beam_size, decode
from foveate.decode.stepper import reordered
from foveate.models import LlamaConfig
from foveate.models.gpt import GPTConfig
from foveate.models.language_model import LanguageModel
from foveate.models.ran_language_model import RANLanguageModel, RANLanguageModelConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig
from foveate.nn import BlockConfig, LearnedConfig, NoneConfig, SinusoidalConfig

VOCAB, END = 13, 2
TEXTS = [[2, 5, 6, 7, 8, 3], [2, 9], [2, 4, 4, 10], [2, 11, 12, 3, 4, 5, 6, 7, 8, 9, 10, 4, 5, 6, 7, 8, 9, 11, 3]]
SAME = {"atol": 1e-11, "rtol": 0}
"""float64: the order of sums may differ, nothing else."""
ATTENTIONS = {
    "scaled dot": AttentionConfig(),
    "cosine": AttentionConfig(score=CosineConfig()),
    "sparsemax": AttentionConfig(normaliser=Sparsemax()),
    "rotary": AttentionConfig(transforms=(Rotary(),)),
    "alibi": AttentionConfig(bias=AlibiConfig()),
    "window": AttentionConfig(visibility=window(left=3, right=0)),
    "linear": LinearConfig(),
    "performer": PerformerConfig(num_features=8),
}
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12)


def configurations() -> Iterator[tuple[str, object]]:
    for name, attention in ATTENTIONS.items():
        block = replace(BLOCK, norm="pre", decoder_attention=attention)
        position = NoneConfig() if name in ("rotary", "alibi") else LearnedConfig(max_length=40)
        yield f"gpt {name}", GPTConfig(block=block, num_layers=2, position=position)
    yield "gpt post", GPTConfig(block=BLOCK, num_layers=2, position=SinusoidalConfig(), tied=False)
    llama = LlamaConfig(model_dim=8, num_heads=4, num_kv_heads=2, feedforward_dim=12, num_layers=2, max_length=40)
    yield "llama", llama
    yield "llama linear", replace(llama, num_kv_heads=4, attention=LinearConfig(), tied=False)
    for cell in ("rnn", "lstm", "gru", "lecture_gru"):
        yield cell, RecurrentLanguageModelConfig(embedding_dim=6, hidden_dim=8, cell=cell)
    ran = RANLanguageModelConfig(model_dim=8, num_heads=2, head_dim=4, window=5)
    yield "ran", ran
    yield "ran deep", replace(ran, num_layers=3, residual=True, window=3, tied=False, review=False)
    yield "ran one window", replace(ran, num_layers=1, window=64)
    yield (
        "deep",
        RecurrentLanguageModelConfig(
            embedding_dim=8, hidden_dim=8, num_layers=3, skip=True, layer_norm=True, tied=True
        ),
    )


CONFIGURATIONS = dict(configurations())


@pytest.fixture(params=CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def model(request: pytest.FixtureRequest) -> LanguageModel:
    torch.manual_seed(1)
    built = request.param.build(VOCAB).double().eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return built


def followed(model: LanguageModel, text: list[int], prompt: int) -> torch.Tensor:
    """The logits after each token of a text from number `prompt` on, which is read at once."""
    state, logits = model.start(Batch.of([text[:prompt]])), []
    for token in text[prompt:]:
        state, after = model.step(state, torch.tensor([token]))
        logits.append(after)
    return torch.cat(logits)


@torch.no_grad()
def test_step_by_step_is_the_whole_after_any_prompt(model: LanguageModel) -> None:
    text = TEXTS[-1]
    whole = model(Batch.of([text]))
    for prompt in (0, 1, 7, 16, len(text) - 1):
        torch.testing.assert_close(followed(model, text, prompt), whole[prompt:], **SAME)


@torch.no_grad()
def test_neither_padding_nor_company_matters(model: LanguageModel) -> None:
    alone = torch.cat([model(Batch.of([text])) for text in TEXTS])
    together = Batch.of(TEXTS)
    torch.testing.assert_close(model(together), alone, **SAME)
    wide = Batch(torch.nn.functional.pad(together.ids, (0, 9), value=3), together.lengths)
    torch.testing.assert_close(model(wide), alone, **SAME)


@torch.no_grad()
def test_what_comes_later_changes_nothing(model: LanguageModel) -> None:
    text = TEXTS[-1]
    other = [*text[:8], *reversed(text[8:])]
    torch.testing.assert_close(model(Batch.of([other]))[:8], model(Batch.of([text]))[:8], **SAME)


def test_the_loss_that_trains_is_the_loss_that_validates(model: LanguageModel) -> None:
    text = Batch.of(TEXTS)
    with torch.no_grad():
        expected = model.loss(text)
    torch.testing.assert_close(model.loss(text).double(), expected.double(), atol=1e-4, rtol=0)


def test_a_text_of_one_token_predicts_nothing_and_costs_nothing(model: LanguageModel) -> None:
    loss = model.loss(Batch.of([[5], [6]]))
    assert loss.item() == 0
    loss.backward()
    assert model(Batch.of([[]])).shape[0] == 0


class Uncached:
    """Reads the whole text anew at every step."""

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.max_length = model, model.max_length

    def step(self, state: torch.Tensor, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        text = torch.cat([state, token[:, None]], 1)
        logits = self.model(Batch(text, torch.full((len(text),), text.shape[1])))
        return text, logits.unflatten(0, (len(text), -1))[:, -1]

    def select(self, state: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return state[rows]


WAYS = {
    "greedy": GreedyConfig(),
    "greedy, constrained": GreedyConfig(no_repeat_ngram=2, min_length=5, forbid=(4,)),
    "beam": BeamConfig(beam=3, num_best=3),
    "beam, constrained": BeamConfig(beam=4, num_best=2, no_repeat_ngram=2, min_length=5),
    "sample": SampleConfig(seed=3),
    "sample, cut": SampleConfig(seed=5, temperature=0.7, top_k=6, top_p=0.9),
}


@pytest.mark.parametrize("config", WAYS.values(), ids=WAYS.keys())
@torch.no_grad()
def test_cached_generation_is_uncached_generation(
    model: LanguageModel, config: GreedyConfig | BeamConfig | SampleConfig
) -> None:
    beam = beam_size(config)
    options = {"sentences": 2, "config": config, "begin": END, "max_length": 18, "examples": [4, 7]}
    for length in (6, 1, 0):
        prompts = Batch(torch.tensor([TEXTS[0], TEXTS[-1][:6]])[:, :length], torch.tensor([length] * 2), 2 * length)
        found = decode(model, model.start(prompts, beam), **options)
        expected = decode(Uncached(model), prompts.ids.repeat_interleave(beam, 0), **options)
        assert [[best.tokens for best in row] for row in found] == [[best.tokens for best in row] for row in expected]


@torch.no_grad()
def test_prompts_of_unequal_lengths_go_on_side_by_side(model: LanguageModel) -> None:
    """All but the recurrent attention network, whose windows begin together, and which says so."""
    if isinstance(model, RANLanguageModel):
        with pytest.raises(ValueError, match="equally long"):
            model.start(Batch.of(TEXTS))
        return
    prompts, beam, later = [text[:cut] for text, cut in zip(TEXTS, (6, 0, 2, 15), strict=True)], 2, [4, 5, 6, 7]
    state, logits = model.start(Batch.of(prompts), beam), []
    for token in later:
        state, after = model.step(state, torch.full((len(prompts) * beam,), token))
        logits.append(after)
    for row, prompt in enumerate(prompts):
        alone = followed(model, [*prompt, *later], len(prompt))
        for place in range(beam):
            together = torch.stack([after[row * beam + place] for after in logits])
            torch.testing.assert_close(together, alone, **SAME)


@torch.no_grad()
def test_each_layer_of_a_gpt_looks_back_only() -> None:
    model = GPTConfig.tiny().build(VOCAB).eval()
    with record(model) as seen:
        model(Batch.of([TEXTS[0]]))
    assert [site.kind for site in seen] == ["self", "self"]
    for site in seen:
        assert not site.weights().triu(1).any()


def test_the_small_gpt2_has_as_many_parameters_as_published() -> None:
    with torch.device("meta"):
        assert GPTConfig.gpt2().build(50257).parameter_count() == 124_439_808


def test_state_selection_follows_rows(model: LanguageModel) -> None:
    rows = torch.tensor([1, 1, 0])
    with torch.no_grad():
        state = model.start(Batch.of([TEXTS[0][:3], TEXTS[2][:3]]))
        _, logits = model.step(model.select(state, rows), torch.tensor([4, 5, 6]))
        for row, (source, token) in enumerate(itertools.zip_longest([2, 2, 0], [4, 5, 6])):
            alone = followed(model, [*TEXTS[source][:3], token], 3)
            torch.testing.assert_close(logits[row : row + 1], alone, **SAME)


@torch.no_grad()
def test_tokens_read_at_once_are_as_many_steps_and_rows_may_move_and_be_joined(model: LanguageModel) -> None:
    """The state is what it is without joins, extensions and reorders: also after rows that have left."""
    joins: Any = model
    if isinstance(model, RANLanguageModel):
        assert not hasattr(model, "join")
        for cut, length in itertools.product((0, 2, 6), (1, 3, 7, 12)):
            state = model.extend(
                model.start(Batch.of([TEXTS[0][:cut]])), torch.tensor([[(4 + each) % VOCAB for each in range(length)]])
            )
            _, logits = model.step(state, torch.tensor([11]))
            said = [*TEXTS[0][:cut], *((4 + each) % VOCAB for each in range(length)), 11]
            alone = followed(model, said, cut + length)
            torch.testing.assert_close(logits, alone, **SAME)
        return
    prompts, later = [text[:cut] for text, cut in zip(TEXTS, (6, 0, 2, 12), strict=True)], [4, 5, 6, 7, 8, 9, 10]
    order = [0, 1, 2]
    state = joins.extend(model.start(Batch.of(prompts[:3])), torch.tensor([later] * 3))
    for rows, newcomer in (([0, 2], 3), ([2, 0, 1], 1), ([0, 3, 2], 0), ([2, 1, 0], 2)):
        state = reordered(joins, state, torch.tensor(rows))
        state = joins.join(state, joins.extend(model.start(Batch.of([prompts[newcomer]])), torch.tensor([later])))
        order = [*(order[row] for row in rows), newcomer]
    _, logits = model.step(state, torch.full((len(order),), 11))
    for row, number in enumerate(order):
        alone = followed(model, [*prompts[number], *later, 11], len(prompts[number]) + len(later))
        torch.testing.assert_close(logits[row : row + 1], alone, **SAME)
