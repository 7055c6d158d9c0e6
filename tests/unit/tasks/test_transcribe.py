"""A transcriber's answers: by CTC, by attention, by both; with times; and the same alone and in a batch."""

from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch

from foveate.data.batch import Batch
from foveate.data.feature import Vector, VectorRows
from foveate.data.tokeniser import BOS, EOS, ByteTokeniser, CharacterTokeniser, SentencePieceConfig, WordTokeniser
from foveate.data.transcript import TextConfig
from foveate.decode import BeamConfig, CTCConfig, GreedyConfig, JointConfig, prefix_search, viterbi
from foveate.errors import DataError, UsageError
from foveate.models import RecogniserConfig, SpellerConfig
from foveate.nn import BlockConfig, SubsamplingConfig, TransformerEncoderConfig
from foveate.tasks.transcribe.recognition import quick, search, usual
from foveate.tasks.transcribe.use import Transcriber, word_spans

WIDTH = 3
LETTERS = CharacterTokeniser.train(["ab cd"])
ROWS = VectorRows(mean=(0.0,) * WIDTH, deviation=(1.0,) * WIDTH)
BLOCK = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=32, norm="pre", dropout=0.0)
FRONT = {
    "subsampling": SubsamplingConfig(factor=2, hidden_dim=16),
    "encoder": TransformerEncoderConfig(block=BLOCK, num_layers=1),
}
SPELLER = SpellerConfig(embedding_dim=8, hidden_dim=16)
MODELS = {
    "ctc": RecogniserConfig(**FRONT),
    "attention": RecogniserConfig(**FRONT, decoder=SPELLER, ctc_weight=0.0),
    "joint": RecogniserConfig(**FRONT, decoder=SPELLER, ctc_weight=0.4),
}
KINDS = pytest.mark.parametrize("kind", MODELS)


def transcriber(kind: str, **options: Any) -> Transcriber:
    torch.manual_seed(1)
    return Transcriber(MODELS[kind].build(ROWS.input, LETTERS.vocab_size), ROWS, LETTERS, **options)


def things(count: int, seed: int = 0) -> list[Vector]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(9, 60, count)
    return [
        Vector(f"{number}.npy", 3 * generator.normal(size=(length, WIDTH))) for number, length in enumerate(lengths)
    ]


@KINDS
def test_a_model_is_searched_with_all_that_it_has(kind: str) -> None:
    expected = {"ctc": CTCConfig(settle_after=50), "attention": BeamConfig(), "joint": JointConfig(ctc_weight=0.4)}
    assert usual(transcriber(kind).model) == transcriber(kind).config == expected[kind]


@KINDS
def test_a_transcript_depends_neither_on_the_batch_nor_on_its_neighbours(kind: str) -> None:
    model, recordings = transcriber(kind), things(7)
    together = model.transcribe(recordings)
    assert model.transcribe(iter(recordings)) == together
    for one, recording in zip(together, recordings, strict=True):
        (alone,) = model.transcribe([recording])
        assert (alone.name, alone.texts, alone.words) == (one.name, one.texts, one.words)
        assert alone.log_probability == pytest.approx(one.log_probability, abs=1e-3)


@KINDS
def test_validation_takes_the_most_probable_label_or_token_at_every_step(kind: str) -> None:
    model, rows = transcriber(kind).model, [ROWS.row(thing) for thing in things(6)]
    with torch.no_grad():  # labels that change, and ends that come
        for weight in model.parameters() if model.decoder else [model.ctc_output.weight]:
            weight.mul_(12 if model.decoder is None else 2)
    with torch.inference_mode():
        written = [list(tokens) for tokens in quick(model, Batch.of(rows))]
        for row, tokens in zip(rows, written, strict=True):
            source = Batch.of([row])
            assert [list(alone) for alone in quick(model, source)] == [tokens]
            if model.decoder is None:
                labels = [label for label, _ in groupby(model.ctc(source)[0][0].argmax(-1).tolist())]
                assert tokens == [label for label in labels if label]
            else:
                logits = model(source, Batch.of([[BOS, *tokens, EOS]]))
                logits[:, list(GreedyConfig().forbid)] = -torch.inf
                best = logits.argmax(-1).tolist()
                limit = 2 * int(model.encode(source).lengths) + 10
                assert best[: len(tokens)] == tokens
                assert len(tokens) == limit or best == [*tokens, EOS]
    assert len({tuple(tokens) for tokens in written}) > 3
    if model.decoder is None:
        beams = model.encode(Batch.of(rows))
        assert written != [list(one[0].tokens) for one in search(model, beams, CTCConfig(beam=10))]


def test_the_best_texts_of_ctc_are_those_of_prefix_search() -> None:
    model, (recording,) = transcriber("ctc"), things(1)
    config = CTCConfig(beam=6, num_best=3)
    (transcript,) = model.transcribe([recording], config=config)
    with torch.inference_mode():
        (expected,) = prefix_search(*model.model.ctc(Batch.of([ROWS.row(recording)])), config)
    assert [one.tokens for one in transcript.hypotheses] == [one.tokens for one in expected]
    assert transcript.texts == tuple(LETTERS.decode(one.tokens) for one in expected)


def test_ctc_gives_the_words_of_attention_their_times() -> None:
    model, recordings = transcriber("joint"), things(5)
    for config in (GreedyConfig(), BeamConfig(beam=3), JointConfig(beam=3)):
        for one, recording in zip(model.transcribe(recordings, config=config), recordings, strict=True):
            tokens = one.hypotheses[0].tokens
            if not one.text.strip() or one.times is None:
                continue
            with torch.inference_mode():
                frames = model.model.ctc(Batch.of([ROWS.row(recording)]))
            (path,) = viterbi(*frames, torch.tensor(tokens), torch.tensor([len(tokens)]))
            assert one.hypotheses[0].frames == path.frames
            assert [word.label for word in one.words] == one.text.split()
            assert one.words[0].start == 2.0 * next(
                place.first for place, token in zip(path.frames, tokens, strict=True) if LETTERS.decode([token]).strip()
            )


def test_attention_alone_has_no_times() -> None:
    (transcript,) = transcriber("attention").transcribe(things(1))
    assert (transcript.times, transcript.words) == (None, ())


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("ctc", BeamConfig(), "has no attention decoder"),
        ("ctc", JointConfig(), "has no attention decoder"),
        ("attention", CTCConfig(), "has no CTC, because model.ctc_weight is 0"),
        ("attention", JointConfig(), "has no CTC, because model.ctc_weight is 0"),
    ],
)
def test_a_search_by_what_the_model_lacks_is_refused(kind: str, config: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        transcriber(kind, config=config)
    with pytest.raises(UsageError, match=message):
        transcriber(kind).transcribe(things(1), config=config)


def test_a_known_text_is_aligned() -> None:
    model, (recording,) = transcriber("ctc", form=TextConfig(lowercase=True)), things(1)
    words = model.align(recording, "AB c").tier("words")
    assert [word.label for word in words] == ["ab", "c"]
    assert 0 <= words[0].start < words[0].end <= words[1].start < words[1].end <= len(recording.values)
    with pytest.raises(UsageError, match="does not know 'x', 'y'"):
        model.align(recording, "xy")
    with pytest.raises(DataError, match="is too short for the text"):
        model.align(recording, "abcd" * 20)
    with pytest.raises(UsageError, match="has no CTC"):
        transcriber("attention").align(recording, "ab")


@KINDS
def test_a_trace_has_the_attention_and_the_path_of_ctc_side_by_side(kind: str) -> None:
    model, (recording,) = transcriber(kind), things(1)
    trace = model.trace(recording, "ab")
    outputs = -(-len(recording.values) // 2)
    assert len(trace.tracks["source"]) == outputs
    sites = {site.name: site for site in trace.sites}
    across = [site for site in trace.sites if (site.query, site.key) == ("target", "source")]
    assert len(across) == {"ctc": 1, "attention": 1, "joint": 2}[kind]
    assert ("ctc" in sites) == (kind != "attention")
    if kind != "attention":
        assert sites["ctc"].posterior
        assert sites["ctc"].queries == (2 if kind == "ctc" else 3)
    for site in across:
        assert site.keys == outputs


def test_a_list_is_needed() -> None:
    with pytest.raises(TypeError, match=r"takes a list of recordings, not str: \['a.wav'\]"):
        transcriber("ctc").transcribe("a.wav")


def test_a_transcript_is_one_line_whatever_bytes_a_model_writes() -> None:
    spelt, written = ByteTokeniser(), []
    model = MODELS["ctc"].build(ROWS.input, spelt.vocab_size)
    for token in spelt.encode("\n\t"):
        with torch.no_grad():
            model.ctc_output.bias.zero_()[token] = 100.0
        (transcript,) = Transcriber(model, ROWS, spelt).transcribe(things(1))
        written.append((spelt.decode(transcript.hypotheses[0].tokens), transcript.text))
    assert written == [("\n", " "), ("\t", " ")]


def test_the_tokens_of_words_are_told_apart_by_every_tokeniser() -> None:
    text = "one two  three"
    pieces = SentencePieceConfig(vocab_size=300).train(["one two three four two one three"] * 30)
    for tokeniser in (CharacterTokeniser.train([text]), WordTokeniser.train([text]), pieces):
        ids = tokeniser.encode(text)
        spans = word_spans(tokeniser, ids)
        assert [tokeniser.decode(ids[first:last]).strip() for first, last in spans] == text.split()
    assert word_spans(CharacterTokeniser.train([text]), []) == []
