"""The decoders against Hugging Face's `generate`, both driving the same tiny random Marian."""

import pytest
import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from foveate.decode import Average, BeamConfig, GreedyConfig, Hypothesis, beam_size, decode

PAD, END, VOCAB = 0, 2, 300
LENGTH = 14
SCORE_TOLERANCE = 2e-6  # relative: the same float32 sums, over batches of different sizes


class HuggingFaceStepper:
    """Reads its whole prefix at every step: slow, but without a cache there is nothing to reorder wrongly."""

    def __init__(self, model: MarianMTModel) -> None:
        self.model = model

    def start(self, source: Tensor, beam: int) -> tuple[Tensor, ...]:
        visible = (source != PAD).long()
        memory = self.model.model.encoder(input_ids=source, attention_mask=visible).last_hidden_state
        empty = torch.zeros((len(source) * beam, 0), dtype=torch.int64)
        return memory.repeat_interleave(beam, 0), visible.repeat_interleave(beam, 0), empty

    def step(self, state: tuple[Tensor, ...], token: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        memory, visible, tokens = state
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        logits = self.model(
            encoder_outputs=(memory,), attention_mask=visible, decoder_input_ids=tokens, use_cache=False
        ).logits[:, -1]
        return (memory, visible, tokens), logits

    def select(self, state: tuple[Tensor, ...], rows: Tensor) -> tuple[Tensor, ...]:
        return tuple(part[rows] for part in state)


@pytest.fixture(scope="module")
def model() -> MarianMTModel:
    torch.manual_seed(5)
    config = MarianConfig(
        vocab_size=VOCAB,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        init_std=0.5,
    )
    model = MarianMTModel(config).eval()
    model.final_logits_bias[0, END] = 6.0  # so that sentences end, at different lengths, and some do not
    return model


@pytest.fixture(scope="module")
def source() -> Tensor:
    generator = torch.Generator().manual_seed(11)
    ids = torch.randint(3, VOCAB, (24, 9), generator=generator)
    lengths = torch.randint(2, 10, (24,), generator=generator)
    ids[torch.arange(9) >= lengths[:, None]] = PAD
    return ids


def theirs(
    model: MarianMTModel, source: Tensor, **settings: object
) -> tuple[list[tuple[int, ...]], list[float] | None]:
    with torch.no_grad():
        result = model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            max_new_tokens=LENGTH,
            do_sample=False,
            bad_words_ids=[[PAD], [1]],
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
    tokens = []
    for row in result.sequences[:, 1:].tolist():
        row = row[: row.index(END)] if END in row else row
        tokens.append(tuple(token for token in row if token != PAD))
    scores = getattr(result, "sequences_scores", None)
    return tokens, None if scores is None else scores.tolist()


def ours(model: MarianMTModel, source: Tensor, config: BeamConfig | GreedyConfig) -> list[list[Hypothesis]]:
    stepper = HuggingFaceStepper(model)
    with torch.no_grad():
        state = stepper.start(source, beam_size(config))
        return decode(stepper, state, sentences=len(source), config=config, begin=PAD, end=END)


@pytest.mark.parametrize(("min_length", "no_repeat_ngram"), [(0, 0), (6, 0), (0, 1), (3, 2)])
def test_greedy_decoding_gives_what_generate_gives(
    model: MarianMTModel, source: Tensor, min_length: int, no_repeat_ngram: int
) -> None:
    config = GreedyConfig(max_length=LENGTH, min_length=min_length, no_repeat_ngram=no_repeat_ngram)
    expected, _ = theirs(
        model, source, num_beams=1, min_new_tokens=min_length or None, no_repeat_ngram_size=no_repeat_ngram
    )

    found = ours(model, source, config)

    assert [best.tokens for [best] in found] == expected
    assert len({len(tokens) for tokens in expected}) > 1


@pytest.mark.parametrize("beam", [1, 2, 4, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_beam_search_gives_what_generate_gives(model: MarianMTModel, source: Tensor, beam: int, alpha: float) -> None:
    if beam == 1:  # generate's beam search starts at 2
        expected, scores = theirs(model, source, num_beams=1)
    else:
        expected, scores = theirs(
            model, source, num_beams=beam, num_return_sequences=beam, length_penalty=alpha, early_stopping=False
        )
    config = BeamConfig(beam=beam, num_best=beam, length_penalty=Average(alpha=alpha), max_length=LENGTH)

    found = [hypothesis for sentence in ours(model, source, config) for hypothesis in sentence]

    assert [hypothesis.tokens for hypothesis in found] == expected
    if scores is not None:
        assert [hypothesis.score for hypothesis in found] == pytest.approx(scores, rel=SCORE_TOLERANCE)


@pytest.mark.parametrize(("min_length", "no_repeat_ngram"), [(5, 0), (0, 2), (4, 3)])
def test_constrained_beam_search_gives_what_generate_gives(
    model: MarianMTModel, source: Tensor, min_length: int, no_repeat_ngram: int
) -> None:
    expected, scores = theirs(
        model,
        source,
        num_beams=4,
        num_return_sequences=4,
        early_stopping=False,
        min_new_tokens=min_length or None,
        no_repeat_ngram_size=no_repeat_ngram,
    )
    config = BeamConfig(beam=4, num_best=4, max_length=LENGTH, min_length=min_length, no_repeat_ngram=no_repeat_ngram)

    found = [hypothesis for sentence in ours(model, source, config) for hypothesis in sentence]

    assert [hypothesis.tokens for hypothesis in found] == expected
    assert [hypothesis.score for hypothesis in found] == pytest.approx(scores, rel=SCORE_TOLERANCE)
