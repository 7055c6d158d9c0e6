"""Two traces of one text, whatever their pieces, are aligned along the same words."""

from typing import Any

import numpy as np
import pytest
import torch

from foveate.data.tokeniser import (
    ByteTokeniser,
    CharacterTokeniser,
    SentencePieceConfig,
    Tokeniser,
    WordTokeniser,
)
from foveate.errors import UsageError
from foveate.inspect import Trace, Track, aligned, nearest_heads, standalone
from foveate.inspect.text_unit import OUTSIDE, Unit, common_units
from foveate.inspect.trace import given, read_trace, write_trace
from foveate.models import TransformerConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator

TEXTS = (
    "a red dog saw the old cats",
    "کتاب‌ها را خواندیم و رفتیم",
    "我昨天 读了这本书",
    "cafe\u0301 nai\u0308ve cafe\u0301",
    "🙂 dog 🙂🙂 saw",
)
MODEL = TransformerConfig(
    block=BlockConfig(model_dim=16, num_heads=2, feedforward_dim=24), encoder_layers=1, decoder_layers=2
)


def tokeniser(kind: str, text: str) -> Tokeniser:
    match kind:
        case "words":
            return WordTokeniser.train([text])
        case "characters":
            return CharacterTokeniser.train([text])
        case "bytes":
            return ByteTokeniser()
    return SentencePieceConfig(vocab_size=300).train([text, "a dog and cats"])


def trace(kind: str, text: str, target: str | None = None, seed: int = 2) -> Trace:
    torch.manual_seed(seed)
    pieces = tokeniser(kind, text)
    model = MODEL.build(pieces.vocab_size, pieces.vocab_size).eval()
    translator = Translator(model, pieces, pieces)
    return trace_of(translator, translator.forced(text, text if target is None else target))


KINDS = ("words", "characters", "bytes", "pieces")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_beside_itself_differs_nowhere_and_units_sum_what_their_tokens_do(kind: str, text: str) -> None:
    here = trace(kind, text)
    for site in range(len(here.sites)):
        units: list[Unit] = ["word", "piece"]
        for unit in units:
            maps = aligned(here, here, site=site, other_site=site, head=1, other_head=1, unit=unit)
            assert maps.whole
            np.testing.assert_array_equal(maps.difference, 0)
            rows = here.sites[site].weights(1)[0].sum(1).double()
            track = here.tracks[here.sites[site].query]
            unit_of = common_units(track, track, unit=unit).one
            spaces = np.where(unit_of == OUTSIDE, len(maps.rows) - 1, unit_of)
            sums = [float(rows[spaces == row].mean()) for row in range(len(maps.rows))]
            np.testing.assert_allclose(maps.first.sum(1), sums, atol=1e-6)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_model_with_other_pieces_has_the_words_of_a_model_of_words(kind: str, text: str) -> None:
    words, other = trace("words", text), trace(kind, text, seed=3)
    maps = aligned(
        words, other, site="decoder.0.cross_attention.attention", other_site="decoder.1.cross_attention.attention"
    )
    assert maps.first.shape == maps.second.shape == (len(maps.rows), len(maps.columns))
    normal = here_text(words)
    assert "".join(maps.columns[:-1]).replace(" ", "") == normal.replace(" ", "")
    assert maps.rows == maps.columns
    np.testing.assert_allclose(maps.second.sum(1), 1, atol=1e-3)
    assert maps.mean > 0.01
    swapped = aligned(
        other, words, site="decoder.1.cross_attention.attention", other_site="decoder.0.cross_attention.attention"
    )
    np.testing.assert_array_equal(swapped.difference, -maps.difference)
    if all(len(word) > 1 and word.isascii() for word in normal.split()):
        assert list(maps.columns[:-1]) == normal.split()


def here_text(trace: Trace) -> str:
    text = trace.tracks["source"].text
    assert text is not None
    return text


def test_the_weights_of_a_word_are_those_of_its_pieces() -> None:
    one, other = trace("words", TEXTS[0]), trace("characters", TEXTS[0])
    maps = aligned(one, other, site=0, other_site=0, head=0, other_head=0)
    weights = other.sites[0].weights(0)[0].double().numpy()
    place = maps.columns.index("dog")
    start = TEXTS[0].index("dog")
    assert maps.second[place, maps.columns.index("a")] == pytest.approx(
        weights[start : start + 3, :1].sum(1).mean(), abs=1e-2
    )


def test_queries_are_aligned_as_far_as_two_answers_agree() -> None:
    one = trace("words", TEXTS[0], "a red dog saw the cats")
    other = trace("characters", TEXTS[0], "a red doggy saw")
    maps = aligned(one, other)
    assert (maps.rows, maps.whole) == (("a", "red"), False)
    assert maps.columns[:-1] == tuple(TEXTS[0].split())
    with pytest.raises(UsageError, match="differ from the first word"):
        aligned(one, trace("characters", TEXTS[0], "the dog"))


def test_what_cannot_be_aligned_is_refused_in_words() -> None:
    one = trace("words", TEXTS[0])
    with pytest.raises(UsageError, match="read different texts: 'a red dog saw the old cats' and 'a red dog'"):
        aligned(one, trace("words", "a red dog"))
    plain = Trace(tracks={"source": Track(labels=("a", "b"))}, sites=(given(torch.eye(2)[None]),))
    with pytest.raises(UsageError, match="no text with the characters"):
        aligned(plain, plain)
    with pytest.raises(UsageError, match="one looks at its own text"):
        aligned(one, one, site="encoder.0.attention", other_site="decoder.0.cross_attention")
    with pytest.raises(UsageError, match="has no head 2"):
        aligned(one, one, head=2)
    with pytest.raises(UsageError, match="no attention 'nowhere'"):
        aligned(one, one, site="nowhere")


def test_a_stored_trace_and_a_page_keep_the_characters(tmp_path: Any) -> None:
    here = trace("pieces", TEXTS[1])
    again = read_trace(write_trace(here, tmp_path / "one.trace"))
    assert again.tracks["source"].offsets == here.tracks["source"].offsets is not None
    np.testing.assert_array_equal(aligned(here, again).difference, 0)
    assert standalone(again)


def test_each_head_is_nearest_to_itself_and_to_the_one_of_another_model_with_the_smallest_distance() -> None:
    one, other = trace("words", TEXTS[0]), trace("characters", TEXTS[0], seed=3)
    alike = nearest_heads(one, one)
    assert len(alike) == sum(site.heads for site in one.sites)
    assert all((each.site, each.head, 0.0) == (each.other_site, each.other_head, each.distance) for each in alike)
    nearest = nearest_heads(one, other)
    assert [(each.site, each.head) for each in nearest] == [(each.site, each.head) for each in alike]
    for each in nearest[::3]:
        mine = one[one.sites[one.index(each.site)].name]
        rivals = [
            site for site in other.sites if (site.kind, site.query, site.key) == (mine.kind, mine.query, mine.key)
        ]
        chosen = {"site": each.site, "head": each.head}
        distances = [
            aligned(one, other, **chosen, other_site=site.title, other_head=head).mean
            for site in rivals
            for head in range(site.heads)
        ]
        assert each.distance == pytest.approx(min(distances))
    with pytest.raises(UsageError, match="different texts"):
        nearest_heads(one, trace("characters", TEXTS[0], "a red dog"))
