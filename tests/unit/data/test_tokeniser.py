"""Tokenisers: the same special ids, nothing changed in silence, files that notice damage."""

import io
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece

from foveate.config import build, to_dict
from foveate.data.tokeniser import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNKNOWN,
    ByteConfig,
    ByteTokeniser,
    CharacterConfig,
    CharacterTokeniser,
    SentencePieceConfig,
    SentencePieceTokeniser,
    Tokeniser,
    TokeniserConfig,
    WordConfig,
    WordTokeniser,
    load_tokeniser,
)
from foveate.data.tokeniser.marian_tokeniser import MarianTokeniser
from foveate.errors import DataError, SetupError, UsageError

LINES = ["the cat sat on the mat", "the dog sat on the log", "naïve café", "кот и собака", "a cat and a dog"] * 4


@pytest.fixture(scope="module", params=["byte", "character", "word", "sentencepiece"])
def tokeniser(request: pytest.FixtureRequest) -> Tokeniser:
    config = {
        "byte": ByteConfig(),
        "character": CharacterConfig(),
        "word": WordConfig(),
        "sentencepiece": SentencePieceConfig(vocab_size=320),
    }[request.param]
    return config.train(LINES)


def test_every_kind_is_a_tokeniser_with_the_same_special_ids(tokeniser: Tokeniser) -> None:
    assert isinstance(tokeniser, Tokeniser)
    assert (PAD, BOS, EOS, UNKNOWN) == (0, 1, 2, 3)
    assert tuple(tokeniser.pieces([PAD, BOS, EOS, UNKNOWN])) == SPECIALS


def test_text_that_was_seen_comes_back_with_the_specials_skipped(tokeniser: Tokeniser) -> None:
    for line in LINES[:5]:
        ids = tokeniser.encode(line)
        assert UNKNOWN not in ids
        assert tokeniser.decode([BOS, *ids, EOS, PAD]) == line
        assert len(tokeniser.pieces(ids)) == len(ids)
        assert all(len(SPECIALS) <= token < tokeniser.vocab_size for token in ids)


def test_the_names_of_specials_in_a_text_are_ordinary_text(tokeniser: Tokeniser) -> None:
    assert not {PAD, BOS, EOS} & set(tokeniser.encode("<pad> <s> </s> <unk>"))


def test_composed_and_decomposed_accents_are_the_same(tokeniser: Tokeniser) -> None:
    assert tokeniser.encode("cafe\u0301") == tokeniser.encode("caf\u00e9")


def test_a_lone_surrogate_is_refused(tokeniser: Tokeniser) -> None:
    with pytest.raises(DataError) as caught:
        tokeniser.encode("caf\udce9")
    assert str(caught.value) == (
        "Character 4 of the text is half a character (the lone surrogate U+DCE9). The text was cut or decoded wrongly: "
        "decode it again as UTF-8."
    )


def test_an_id_outside_the_vocabulary_is_refused(tokeniser: Tokeniser) -> None:
    for token in (-1, tokeniser.vocab_size):
        with pytest.raises(DataError) as caught:
            tokeniser.decode([4, token])
        assert str(caught.value) == (
            f"Id {token} is outside this tokeniser's vocabulary of {tokeniser.vocab_size:,}. "
            "Use the tokeniser that the model was trained with."
        )


def test_a_saved_tokeniser_loads_as_the_same(tokeniser: Tokeniser, tmp_path: Path) -> None:
    tokeniser.save(tmp_path / "source.tokeniser.json")
    loaded = load_tokeniser(tmp_path / "source.tokeniser.json")
    assert type(loaded) is type(tokeniser)
    assert loaded.digest() == tokeniser.digest()
    assert loaded.encode(LINES[3]) == tokeniser.encode(LINES[3])
    assert [path.name for path in tmp_path.iterdir()] == ["source.tokeniser.json"]


def test_the_same_lines_give_the_same_tokeniser_and_others_another(tokeniser: Tokeniser) -> None:
    if isinstance(tokeniser, SentencePieceTokeniser):
        again, other = (SentencePieceTokeniser.train(lines, vocab_size=320) for lines in (LINES, LINES[1:]))
    elif isinstance(tokeniser, WordTokeniser):
        again, other = WordTokeniser.train(LINES), WordTokeniser.train(LINES[:3])
    elif isinstance(tokeniser, CharacterTokeniser):
        again, other = CharacterTokeniser.train(LINES), CharacterTokeniser.train(LINES[:3])
    else:
        again, other = ByteTokeniser(), CharacterTokeniser.train(LINES)
    assert again.digest() == tokeniser.digest() != other.digest()


def test_what_the_vocabulary_lacks_is_unknown_and_shown() -> None:
    words, characters = WordTokeniser.train(LINES), CharacterTokeniser.train(LINES)
    assert words.encode("the zebra") == [words.encode("the")[0], UNKNOWN]
    assert words.decode(words.encode("the zebra")) == "the <unk>"
    assert characters.decode(characters.encode("cäw")) == "c��"


def test_bytes_and_pieces_know_every_text() -> None:
    text = "зебра 😀 \x00 終"
    for tokeniser in (ByteTokeniser(), SentencePieceTokeniser.train(LINES, vocab_size=320)):
        assert UNKNOWN not in tokeniser.encode(text)
    assert ByteTokeniser().decode(ByteTokeniser().encode(text)) == text
    assert ByteTokeniser().decode([*ByteTokeniser().encode("a"), UNKNOWN, 4 + 0xC3]) == "a��"


def test_pieces_label_characters_bytes_and_words_for_viewing() -> None:
    assert ByteTokeniser().pieces(ByteTokeniser().encode("é!")) == ["<0xC3>", "<0xA9>", "!"]
    assert CharacterTokeniser.train(["a b"]).pieces([4, 5, 6]) == [" ", "a", "b"]
    assert WordTokeniser.train(["B AH N AE N AH"]).pieces([7, 4, 5, EOS]) == ["B", "AH", "N", "</s>"]
    pieces = SentencePieceTokeniser.train(LINES, vocab_size=320)
    labels = pieces.pieces(pieces.encode("the cat"))
    assert "".join(labels) == "▁the▁cat"


def test_words_are_chosen_by_count_and_number() -> None:
    words = WordTokeniser.train(["b b a a c", "d d d"], vocab_size=7)
    assert words.symbols == ("d", "a", "b")
    assert WordTokeniser.train(["b b a a c", "d d d"], min_count=2).symbols == ("d", "a", "b")
    assert CharacterConfig(min_count=2).train(["aab"]).symbols == ("a",)


def test_lower_case_words_make_no_difference() -> None:
    words = WordTokeniser.train(["The the THE İ"], lowercase=True)
    assert words.encode("tHe") == words.encode("the") == [4]
    assert load_copy(words).encode("tHe") == [4]


def load_copy(tokeniser: Tokeniser) -> Tokeniser:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        tokeniser.save(f"{folder}/t.json")
        return load_tokeniser(f"{folder}/t.json")


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_sentencepiece_gives_a_small_text_fewer_pieces_than_asked_for(model_type: str) -> None:
    tokeniser = SentencePieceConfig(vocab_size=8000, model_type=model_type).train(LINES)
    assert 260 < tokeniser.vocab_size < 400
    assert tokeniser.decode(tokeniser.encode("the  cat ")) == "the  cat "


def test_sentencepiece_draws_the_same_lines_from_many() -> None:
    config = SentencePieceConfig(vocab_size=320, max_lines=6)
    lines = [*LINES, *(line.upper() for line in LINES)]
    assert config.train(lines).digest() == config.train(lines).digest() != config.train(LINES[:6]).digest()


@pytest.mark.parametrize(("model_type", "least"), [("bpe", 15), ("unigram", 50)])
def test_rare_pieces_are_split_and_ids_remain(model_type: str, least: int) -> None:
    lines = [*LINES * 5, "naïve naïve naïve {12}.", "кот"]
    whole = SentencePieceConfig(vocab_size=400, model_type=model_type).train(lines)
    split = SentencePieceConfig(vocab_size=400, model_type=model_type, min_count=least).train(lines)
    assert split.pieces(range(whole.vocab_size)) == whole.pieces(range(whole.vocab_size))
    counts = Counter(token for line in lines for token in whole.encode(line))
    rare = {token for token, count in counts.items() if count < least and len(whole.pieces([token])[0]) > 1}
    rare -= set(whole.encode("🙂"))  # bytes
    assert rare
    common = [line for line in lines if rare.isdisjoint(whole.encode(line))]
    assert common
    assert [split.encode(line) for line in common] == [whole.encode(line) for line in common]
    for line in lines:
        ids = split.encode(line)
        assert rare.isdisjoint(ids)
        assert split.decode(ids) == line
        assert "".join(split.surfaces(line)) == line
    assert split.decode(whole.encode(lines[-2])) == lines[-2], "a model may still write a rare piece"
    assert split.decode(split.encode("🙂 naïf {2}")) == "🙂 naïf {2}"
    assert load_copy(split).digest() == split.digest() != whole.digest()


def test_rare_pieces_are_those_of_the_text_that_is_given() -> None:
    whole = SentencePieceTokeniser.train(LINES, vocab_size=400)
    split = whole.without_rare_pieces(["the cat sat on the mat"] * 9, 9)
    assert split.pieces(split.encode("the cat")) == whole.pieces(whole.encode("the cat"))
    assert len(split.encode("the dog")) > len(whole.encode("the dog"))
    assert whole.without_rare_pieces(LINES, 0).digest() == whole.digest()
    with pytest.raises(ValueError, match="min_count must be at least 0, got -1"):
        SentencePieceConfig(min_count=-1)


def test_training_on_nothing_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        WordTokeniser.train(["", "  "])
    assert str(caught.value) == "There is no word in the training text: give at least one line that is not empty."
    with pytest.raises(DataError) as caught:
        CharacterTokeniser.train([])
    assert str(caught.value) == "There is no character in the training text: give at least one line that is not empty."
    with pytest.raises(DataError) as caught:
        SentencePieceTokeniser.train(["", " "])
    assert str(caught.value) == "The training data have no text: give at least one line that is not empty."


def test_a_vocabulary_too_small_for_the_characters_is_refused() -> None:
    lines = ["".join(chr(0x4E00 + i) for i in range(start, start + 20)) for start in range(0, 400, 20)]
    with pytest.raises(DataError) as caught:
        SentencePieceTokeniser.train(lines, vocab_size=300)
    assert str(caught.value) == (
        "SentencePiece could not learn 300 pieces from 20 lines: they have too many different characters. "
        "Set vocab_size to 661 or more."
    )


def test_sentencepiece_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(SetupError) as caught:
        SentencePieceTokeniser.train(LINES)
    assert str(caught.value) == (
        "The tokeniser 'sentencepiece' needs the package sentencepiece. Run: pip install sentencepiece"
    )


def test_configurations_choose_tokenisers_by_kind() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Holder:
        tokeniser: TokeniserConfig = CharacterConfig()

    for kind in ("byte", "character", "word", "sentencepiece"):
        holder = build(Holder, {"tokeniser": kind})
        assert to_dict(holder)["tokeniser"]["kind"] == kind
    with pytest.raises(UsageError) as caught:
        build(Holder, {"tokeniser": {"kind": "word", "vocab_size": 4}})
    assert str(caught.value) == "tokeniser.vocab_size must be at least 5, got 4."
    with pytest.raises(UsageError) as caught:
        build(Holder, {"tokeniser": {"kind": "sentencepiece", "vocab_size": 100}})
    assert str(caught.value) == (
        "tokeniser.vocab_size must be at least 261 (4 special ids, 256 bytes, pieces), got 100."
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    WordTokeniser.train(["a b c"]).save(tmp_path / "source.tokeniser.json")
    return tmp_path / "source.tokeniser.json"


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load_tokeniser(path)
    return str(caught.value)


def test_a_changed_tokeniser_is_refused(saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"b"', '"d"'))
    assert refusal(saved) == (
        f"{saved} has changed since it was written: its digest differs. Restore it from a copy of the run."
    )


def test_a_cut_tokeniser_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-30])
    assert refusal(saved) == f"{saved} is damaged or not a tokeniser file. Restore it from a copy of the run."


def test_every_flipped_bit_is_noticed_or_harmless(saved: Path) -> None:
    right, digest = saved.read_bytes(), load_tokeniser(saved).digest()
    for position in range(0, 8 * len(right), 7):
        wrong = bytearray(right)
        wrong[position // 8] ^= 1 << position % 8
        saved.write_bytes(wrong)
        try:
            assert load_tokeniser(saved).digest() == digest
        except DataError:
            continue


def test_a_missing_tokeniser_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "t.json") == (
        f"{tmp_path}/t.json: the tokeniser file does not exist. Is this the folder of a finished `train`?"
    )


def test_a_tokeniser_of_another_version_is_named(saved: Path) -> None:
    record = json.loads(saved.read_text())
    saved.write_text(json.dumps(record | {"format": "foveate tokeniser 2"}))
    assert refusal(saved) == (
        f"{saved} has the format 'foveate tokeniser 2'; this version of foveate reads 'foveate tokeniser 1'."
    )


@pytest.mark.parametrize(
    ("tokeniser", "text", "strange", "labels"),
    [
        (WordTokeniser.train(["the cat"]), "the HELLO cat 😀", ["HELLO", "😀"], ["the", "HELLO", "cat", "😀"]),
        (WordTokeniser.train(["the cat"], lowercase=True), "The DOG", ["DOG"], ["the", "DOG"]),
        (CharacterTokeniser.train(["hello"]), "Hé", ["H", "é"], ["H", "é"]),
        (ByteTokeniser(), "é", [], ["<0xC3>", "<0xA9>"]),
    ],
    ids=["word", "lowercase", "character", "byte"],
)
def test_what_a_vocabulary_lacks_is_named_and_stays_as_it_was_written(
    tokeniser: Tokeniser, text: str, strange: list[str], labels: list[str]
) -> None:
    assert tokeniser.strange(text) == strange
    assert tokeniser.labels(text) == labels
    assert len(tokeniser.surfaces(text)) == len(tokeniser.encode(text))


def test_letters_that_are_spelt_in_bytes_have_not_been_seen() -> None:
    tokeniser = SentencePieceTokeniser.train(["the black cat sat on the mat"] * 9, vocab_size=290)
    assert tokeniser.strange("the 😀 cat, 你") == ["😀", ",", "你"]
    assert tokeniser.strange("the cat") == []
    assert tokeniser.labels("the 😀") == tokeniser.pieces(tokeniser.encode("the 😀"))


def test_characters_without_a_piece_need_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google", None)  # protobuf, which SentencePiece does not install
    tokeniser = SentencePieceConfig(vocab_size=300).train(["ein kleines Haus"] * 50)
    text = "Haus 😀 5 €"
    assert "".join(tokeniser.surfaces(text)).replace(" ", "") == text.replace(" ", "")
    assert tokeniser.strange(text)


def test_a_folder_of_marian_needs_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google", None)
    model = SentencePieceConfig(vocab_size=300).train(["ein kleines Haus"] * 50).model
    tokeniser = MarianTokeniser(model, ("▁Haus",))
    text = "ein Haus 漢"
    assert "".join(tokeniser.surfaces(text)) == text


@pytest.mark.parametrize("begin", ["", "  ", ">>fr<<", ">>fr<< "])
def test_pieces_of_marian_name_their_characters_behind_spaces_that_have_no_piece(begin: str) -> None:
    model = io.BytesIO()
    lines = iter(["a small house in the town"] * 50)
    sentencepiece.SentencePieceTrainer.train(  # with the normalisation of Marian, which drops spaces at the beginning
        sentence_iterator=lines, model_writer=model, vocab_size=30, hard_vocab_limit=False, minloglevel=2
    )
    tokeniser = MarianTokeniser(model.getvalue(), ["▁a", "▁the", "h", "o", "u", "s", "e", "▁"])
    text = f"{begin}house Ω"
    spans = tokeniser.spans(text)
    assert "".join(text[first:last] for first, last in spans) == f"{begin.strip()}house Ω"
    assert len(spans) == len(tokeniser.encode(text))
    assert "Ω" in tokeniser.strange(text)
