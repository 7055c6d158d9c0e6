"""Tags of languages before the sources of a model that writes several."""

from pathlib import Path

import pytest

from foveate.data.tokeniser import (
    CharacterTokeniser,
    LanguageTokeniser,
    SentencePieceTokeniser,
    Tokeniser,
    WordTokeniser,
    load_tokeniser,
)
from foveate.errors import DataError, UsageError
from foveate.metrics.corpus import FOR_SYMBOLS, evaluate
from foveate.tasks.translate.translation_size import suitable_metrics

INNER = [CharacterTokeniser.train(["سلام abc"]), SentencePieceTokeniser.train(["سلام abc"] * 9, vocab_size=280)]
DIRECTIONS = ["en-fa", "fa-en", "en-zh"]


@pytest.mark.parametrize("inner", INNER, ids=["characters", "pieces"])
def test_a_tag_is_one_more_id_and_nothing_of_the_text(inner: Tokeniser, tmp_path: Path) -> None:
    tokeniser = LanguageTokeniser(inner, DIRECTIONS)
    assert tokeniser.targets == ("en", "fa", "zh")
    tags = set()
    for language in tokeniser.targets:
        chosen = tokeniser.into(language)
        tag, *ids = chosen.encode("abc سلام")
        tags.add(tag)
        assert ids == inner.encode("abc سلام")
        assert chosen.decode([tag, *ids]) == inner.decode(ids)
        assert chosen.pieces([tag, *ids]) == [f"<2{language}>", *inner.pieces(ids)]
        assert len(chosen.labels("abc")) == len(chosen.surfaces("abc")) == len(chosen.encode("abc"))
        assert chosen.encode("") == []
    assert tags == set(range(inner.vocab_size, tokeniser.vocab_size))
    tokeniser.save(tmp_path / "file.json")
    again = load_tokeniser(tmp_path / "file.json")
    assert isinstance(again, LanguageTokeniser)
    assert again.digest() == tokeniser.digest() == tokeniser.into("fa").digest()
    assert again.into("fa").encode("abc") == tokeniser.into("fa").encode("abc")


def test_chinese_is_scored_by_characters_and_symbols_by_errors() -> None:
    words = WordTokeniser.train(["a b c"])
    phones = LanguageTokeniser(words, DIRECTIONS, side="target")
    assert suitable_metrics(phones) == suitable_metrics(words) == FOR_SYMBOLS
    assert suitable_metrics(LanguageTokeniser(INNER[0], DIRECTIONS, side="target"), "zh")[0] == "bleu_zh"
    one, other = "打开黑色文件。", "打开黑色文档。"
    plain, chinese = evaluate([one], [other], ["bleu", "bleu_zh"])
    assert plain.value == 0 < chinese.value < 100
    assert "tok:zh" in chinese.signature


def test_a_language_is_chosen_and_known() -> None:
    tokeniser = LanguageTokeniser(INNER[0], DIRECTIONS)
    with pytest.raises(UsageError, match=r"several languages: en, fa, zh\. Name one with --to"):
        tokeniser.encode("abc")
    with pytest.raises(UsageError, match=r"does not write 'fr', but en, fa, zh"):
        tokeniser.into("fr")
    with pytest.raises(UsageError, match=r"'en-fa', but en, fa, zh\. Name the language alone: fa\."):
        tokeniser.into("en-fa")
    with pytest.raises(DataError, match=r"directions: 'english' is not a direction"):
        LanguageTokeniser(INNER[0], ["english"])
    assert LanguageTokeniser(INNER[0], DIRECTIONS, side="target").encode("ab") == INNER[0].encode("ab")
