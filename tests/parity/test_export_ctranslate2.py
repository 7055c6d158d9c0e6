"""A tiny random Transformer in CTranslate2: the same scores, and the same words where both search alike."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from torch import nn

from foveate.attention import AdditiveConfig, AlibiConfig, AttentionConfig, padding
from foveate.data.batch import Batch
from foveate.data.tokeniser import SPECIALS, CharacterTokeniser
from foveate.decode import BeamConfig, GreedyConfig, Hypothesis, SampleConfig, Wu, beam_size, decode
from foveate.errors import UsageError
from foveate.export import (
    CTranslate2Engine,
    ctranslate2_refusals,
    onnx_refusals,
    save_ctranslate2,
    save_onnx,
    vocabulary,
)
from foveate.models import BahdanauConfig, Transformer, TransformerConfig
from foveate.nn.loss import cross_entropy
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.position_vector import LearnedConfig, NoneConfig, SinusoidalConfig
from foveate.nn.transformer_block import BlockConfig

VOCAB, END = 40, 2
SCORE = 1e-5  # absolute, of log-probabilities of whole sentences: rounding of float32 sums

BLOCK = BlockConfig(model_dim=32, num_heads=4, feedforward_dim=48)
DESIGNS = {
    "pre-norm": TransformerConfig(block=replace(BLOCK, norm="pre")),
    "post-norm, nothing tied, no biases": TransformerConfig(
        block=replace(BLOCK, activation="gelu", bias=False), share="none", position=LearnedConfig(max_length=80)
    ),
    "all tied, no positions": TransformerConfig(
        block=replace(BLOCK, norm="pre", activation="silu"), share="all", position=NoneConfig(), decoder_layers=1
    ),
    "blocks of sines, another gelu": TransformerConfig(
        block=replace(BLOCK, activation="gelu_tanh"), position=SinusoidalConfig(layout="blocks"), encoder_layers=1
    ),
}


def random_model(config: TransformerConfig, end: float = 2.0) -> Transformer:
    torch.manual_seed(5)
    model = replace(config, output_bias=True).build(VOCAB, VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms, which start as zeros and ones
                parameter.add_(0.1 * torch.randn_like(parameter))
        assert model.output_bias is not None
        model.output_bias[:2] = -20.0  # what a trained model never says: padding and begin
        model.output_bias[END] = end  # so that sentences end, at different lengths
    return model


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    generator = torch.Generator().manual_seed(11)
    lengths = torch.randint(1, 12, (24,), generator=generator).tolist()
    return [[*torch.randint(4, VOCAB, (length,), generator=generator).tolist(), END] for length in lengths]


def own(
    model: Transformer, sources: list[list[int]], config: GreedyConfig | BeamConfig, limit: int | None = None
) -> list[list[Hypothesis]]:
    each = torch.tensor([limit] * len(sources) if limit else limits(sources))
    with torch.inference_mode():
        state = model.start(Batch.of(sources), beam_size(config))
        return decode(model, state, sentences=len(sources), config=config, max_length=each)


def limits(sources: list[list[int]]) -> list[int]:
    return [2 * len(source) + 10 for source in sources]


@pytest.mark.parametrize("config", DESIGNS.values(), ids=DESIGNS.keys())
def test_scores_of_given_translations_are_ours(
    config: TransformerConfig, sources: list[list[int]], tmp_path: Path
) -> None:
    model = random_model(config)
    names = ["<pad>", "<s>", "</s>", "<unk>", *map(str, range(4, VOCAB))]
    save_ctranslate2(model, tmp_path / "to", source_vocabulary=names, target_vocabulary=names)
    theirs = ctranslate2.Translator(str(tmp_path / "to"), compute_type="float32", intra_threads=1)
    targets = [list(reversed(source[:-1])) for source in sources]

    found = theirs.score_batch(
        *(
            [[names[token] for token in row[:length]] for row, length in zip(side, lengths, strict=True)]
            for side, lengths in (
                (sources, [len(row) - 1 for row in sources]),
                (targets, [len(row) for row in targets]),
            )
        )
    )

    for source, target, scored in zip(sources, targets, found, strict=True):
        batch = Batch.of([[1, *target, END]])
        with torch.no_grad():
            expected = -float(cross_entropy(model(Batch.of([source]), batch), model.predicted(batch)))
        assert sum(scored.log_probs) == pytest.approx(expected, abs=SCORE * len(target))
        assert abs(expected) > 1  # there is something to compare


@pytest.mark.parametrize("config", DESIGNS.values(), ids=DESIGNS.keys())
def test_greedy_decoding_gives_our_words_and_scores(config: TransformerConfig, sources: list[list[int]]) -> None:
    model, greedy = random_model(config), GreedyConfig(max_length=20)

    found = CTranslate2Engine(model).decode(sources, [20] * len(sources), greedy)

    lengths = set()
    for (ours,), theirs in zip(own(model, sources, greedy, limit=20), found, strict=True):
        assert theirs is not None
        assert (theirs[0].tokens, theirs[0].finished) == (ours.tokens, ours.finished)
        assert theirs[0].log_probability == pytest.approx(ours.log_probability, abs=SCORE)
        lengths.add(len(ours.tokens))
    assert len(lengths) > 1


@pytest.mark.parametrize("penalty", [None, BeamConfig().length_penalty], ids=["plain sum", "mean"])
def test_beam_search_never_finds_better_than_ours_by_stopping_earlier(
    penalty: object, sources: list[list[int]]
) -> None:
    """Ours goes on until no running hypothesis could enter; what both found alike has the same score."""
    model = random_model(DESIGNS["pre-norm"], end=4.0)
    config = BeamConfig(beam=4, num_best=2, length_penalty=penalty)  # type: ignore[arg-type]

    found = CTranslate2Engine(model).decode(sources, limits(sources), config)

    equal = 0
    for ours, theirs in zip(own(model, sources, config), found, strict=True):
        if theirs is not None:
            assert theirs[0].score <= ours[0].score + SCORE
            if theirs[0].tokens == ours[0].tokens:
                equal += 1
                assert theirs[0].score == pytest.approx(ours[0].score, abs=SCORE)
                assert theirs[0].log_probability == pytest.approx(ours[0].log_probability, abs=SCORE)
    assert equal > len(sources) / 2


def test_what_went_beyond_its_own_limit_is_left_to_our_engine(sources: list[list[int]]) -> None:
    model, lengths = random_model(DESIGNS["pre-norm"]), [1, *[20] * (len(sources) - 1)]
    assert own(model, sources, GreedyConfig(), limit=20)[0][0].tokens

    found = CTranslate2Engine(model).decode(sources, lengths, GreedyConfig())

    assert found[0] is None
    assert None not in found[1:]


def test_int8_is_another_model(sources: list[list[int]]) -> None:
    """So it is never a default."""
    model = random_model(DESIGNS["pre-norm"])
    exact, coarse = (
        CTranslate2Engine(model, kind).decode(sources, limits(sources), GreedyConfig()) for kind in ("float32", "int8")
    )
    pairs = [(one[0], other[0]) for one, other in zip(exact, coarse, strict=True) if one and other]
    assert any(one.log_probability != other.log_probability for one, other in pairs)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (BahdanauConfig(), "Bahdanau, not a Transformer"),
        (TransformerConfig(block=replace(BLOCK, cross_attention=AttentionConfig(score=AdditiveConfig()))), "Additive"),
        (TransformerConfig(block=replace(BLOCK, decoder_attention=AttentionConfig(bias=AlibiConfig()))), "has a bias"),
    ],
)
def test_what_it_cannot_express_is_refused_with_the_reason(
    config: TransformerConfig | BahdanauConfig, reason: str, tmp_path: Path
) -> None:
    model = config.build(VOCAB, VOCAB)
    assert reason in "; ".join(ctranslate2_refusals(model))
    with pytest.raises(UsageError, match=f"{reason}.*--to onnx"):
        save_ctranslate2(model, tmp_path / "to", source_vocabulary=[], target_vocabulary=[])
    assert not list(tmp_path.iterdir())


def test_each_id_needs_a_name_of_its_own(tmp_path: Path) -> None:
    model = random_model(next(iter(DESIGNS.values())))
    names = ["<pad>", "<s>", "</s>", "<unk>", *map(str, range(4, VOCAB))]
    for side, other in (("source", "target"), ("target", "source")):
        for wrong, says in (
            (names[:-1], f"{VOCAB - 1} names, and the model has {VOCAB}"),
            ([*names[:-1], "4"], "'4' twice"),
        ):
            vocabularies: dict[str, Any] = {f"{side}_vocabulary": wrong, f"{other}_vocabulary": names}
            with pytest.raises(UsageError, match=f"{side}_vocabulary has {says}"):
                save_ctranslate2(model, tmp_path / "to", **vocabularies)


def test_folders_with_other_content_are_left_alone(tmp_path: Path) -> None:
    model = random_model(next(iter(DESIGNS.values())))
    names = ["<pad>", "<s>", "</s>", "<unk>", *map(str, range(4, VOCAB))]
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    for save in (save_onnx, partial(save_ctranslate2, source_vocabulary=names, target_vocabulary=names)):
        with pytest.raises(UsageError, match="letters exists and is not an earlier export"):
            save(model, tmp_path / "letters")
        for _ in range(2):
            save(model, tmp_path / "to")
        (tmp_path / "to" / "model.int8.onnx").write_text("mine")
        with pytest.raises(UsageError, match=r"also holds model\.int8\.onnx"):
            save(model, tmp_path / "to")
        (tmp_path / "to" / "model.int8.onnx").unlink()
    assert (tmp_path / "letters" / "mine.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("heads", "number of heads"),
        ("activation", "activations"),
        ("place", "places of their norms"),
        ("end", "another norm than usual"),
        ("bias", "decoder layer 1: some of its projections have a bias"),
        ("values", "the widths of its values and keys differ"),
    ],
)
def test_blocks_that_differ_are_refused(part: str, reason: str) -> None:
    model = random_model(DESIGNS["pre-norm"])
    decoder: Any = model.decoder
    usual: Any = {"query_dim": 32, "num_heads": 4, "bias": True, "visibility": padding(), "kind": "cross"}
    if part == "heads":
        decoder[0].cross_attention = MultiHeadAttention(**{**usual, "num_heads": 2})
    elif part == "activation":
        decoder[1].feedforward.activation = "silu"
    elif part == "place":
        decoder[1].attention_residual.place = "post"
    elif part == "end":
        model.encoder_norm = nn.Identity()
    elif part == "bias":
        decoder[1].attention.query.bias = None
    else:
        decoder[0].cross_attention = MultiHeadAttention(**usual, value_head_dim=16)
    with pytest.raises(UsageError, match=reason):
        CTranslate2Engine(model)
    if part in ("bias", "values"):
        assert reason.rpartition(": ")[2] in "; ".join(onnx_refusals(model))


def test_ways_to_decode_that_it_would_score_otherwise_are_refused() -> None:
    refuses = CTranslate2Engine.refuses
    assert not refuses(GreedyConfig())
    assert not refuses(BeamConfig())
    assert "samples" in refuses(SampleConfig())[0]
    assert "min_length" in refuses(GreedyConfig(min_length=2))[0]
    assert "length penalties" in refuses(BeamConfig(length_penalty=Wu()))[0]


def test_names_of_a_vocabulary_are_all_different() -> None:
    names = vocabulary(CharacterTokeniser("ab"))
    assert len(set(names)) == len(names) == CharacterTokeniser("ab").vocab_size
    assert names[:4] == ["<pad>", "<s>", "</s>", "<unk>"]


def test_every_id_has_a_name_of_its_own_whatever_pieces_are_called() -> None:
    third = len(SPECIALS) + 2

    class Alike(CharacterTokeniser):
        def pieces(self, ids: Iterable[int]) -> list[str]:
            return ["a", f"a#{third}", "a", "a"]

    names = vocabulary(Alike("abcd"))
    assert len(set(names)) == len(names) == third + 2
    assert names[:third] == [*SPECIALS, "a", f"a#{third}"]
