"""Text that is told while its tokens come."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.data.tokeniser import (
    ByteConfig,
    CharacterConfig,
    HuggingFaceTokeniser,
    SentencePieceConfig,
    WordConfig,
)
from foveate.data.tokeniser.running_text import RunningText
from foveate.tasks.language_model.ending import Endings

TEXT = ["It is a café, of course. 😀 Ich weiß, naïve ﷺ", "the cat sat on the mat 猫 и кот", "  two  spaces, then 한국"]


def with_bytes() -> HuggingFaceTokeniser:
    """As Llama's: pieces with ▁, and a byte for what no piece has. All bytes in a row are read together."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁the", "cat", "é", "."]
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(dict(zip(pieces, itertools.count())), [], byte_fallback=True, unk_token="<unk>")
    )
    decoders = tokenizers.decoders
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.add_special_tokens(["<s>", "</s>"])
    return HuggingFaceTokeniser(inner, {"bos": "<s>", "eos": "</s>"})


def byte_pairs() -> HuggingFaceTokeniser:
    """As GPT-2's: tokens are any bytes, also parts of a character."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXT, tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    return HuggingFaceTokeniser(inner, {})


TOKENISERS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: ByteConfig().train(TEXT),
    "characters": lambda: CharacterConfig().train(TEXT),
    "words": lambda: WordConfig().train(TEXT),
    "pieces": lambda: SentencePieceConfig(vocab_size=320).train(TEXT),
    "byte pairs": byte_pairs,
    "pieces and bytes": with_bytes,
}


@pytest.fixture(scope="module", params=TOKENISERS)
def tokeniser(request: pytest.FixtureRequest) -> Any:
    return TOKENISERS[request.param]()


def parts_of(tokeniser: Any, before: list[int], tokens: list[int]) -> list[str]:
    running = RunningText(tokeniser.decode, before, is_partial=tokeniser.is_partial)
    return [*map(running.add, tokens), running.end()]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_parts_are_the_whole_text_of_any_tokens(tokeniser, data):
    """Also where tokens are not a text at all."""
    seed, size = data.draw(st.integers(0, 2**32)), data.draw(st.sampled_from([1, 5, 40, 150]))
    noise = random.Random(seed)
    alphabet = noise.sample(range(tokeniser.vocab_size), min(tokeniser.vocab_size, noise.choice([3, 12, 10_000])))
    tokens = [noise.choice(alphabet) for _ in range(size)]
    before = tokeniser.encode(noise.choice([*TEXT, ""]))
    if tokeniser.kind == "hugging_face" and before and tokeniser.is_partial(before[-1]):
        before = []  # bytes of the prompt and what follows are read together
    whole = tokeniser.decode([*before, *tokens])
    assert tokeniser.decode(before) + "".join(parts_of(tokeniser, before, tokens)) == whole


@pytest.mark.parametrize("name", ["bytes", "byte pairs", "pieces and bytes", "pieces"])
def test_a_character_of_several_tokens_is_told_whole(name):
    tokeniser = TOKENISERS[name]()
    text = "猫 a и 😀."
    parts = parts_of(tokeniser, tokeniser.encode("猫" * 9), tokeniser.encode(text))
    assert "".join(parts).lstrip() == text  # SentencePiece writes a space before a word
    assert "\ufffd" not in "".join(parts)
    assert sum(map(bool, parts)) > 1


def test_bytes_on_both_sides_of_a_special_token_stand_in_a_row():
    tokeniser = with_bytes()
    valid, wrong = tokeniser.encode("猫"), tokeniser.inner.token_to_id("<0xFF>")
    tokens = [*tokeniser.encode("a"), *valid, tokeniser.id_of("eos"), wrong, *tokeniser.encode("a")]
    assert "".join(parts_of(tokeniser, [], tokens)) == tokeniser.decode(tokens) == "a" + "\ufffd" * 4 + "a"


def test_a_text_that_depends_on_tokens_far_before_is_told_as_it_is():
    def decode(ids: list[int]) -> str:
        """The token 0 changes between small and capital letters from there on."""
        letters, capital = [], False
        for token in ids:
            capital ^= token == 0
            letters.append("" if token == 0 else chr(token + 32 * (not capital)))
        return "".join(letters)

    tokens = [65, 66, 0, *range(65, 91), *range(65, 91), 0, *range(65, 91), *range(65, 91)]
    running = RunningText(decode)
    assert "".join([*map(running.add, tokens), running.end()]) == decode(tokens)


def test_text_is_told_early_and_at_a_cost_that_does_not_grow():
    tokeniser = TOKENISERS["bytes"]()
    tokens = tokeniser.encode("a word and another, " * 2000)
    longest = 0

    def decode(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return str(tokeniser.decode(ids))

    running = RunningText(decode, tokens)
    assert all(len(running.add(token)) == 1 for token in tokens)
    assert longest < 40


def before_end(ends: list[str], parts: list[str]) -> str:
    """What is passed on of a text that comes in parts."""
    endings, text = Endings(ends), ""
    for part in parts:
        news, ended = endings.add(part)
        text += news
        if ended:
            break
    return text + endings.rest()


def test_a_text_is_passed_on_up_to_the_first_of_its_ends():
    for ends, parts, expected in (
        (["!", "."], ["one", ". two! three"], "one"),
        (["!"], ["one", ""], "one"),
        (["<end>"], ["a<", "e", "n", "d>b"], "a"),
        (["<end>"], ["a<", "e", "nx<"], "a<enx<"),
        (["aab"], ["a", "a", "a", "b", "c"], "a"),
        ([], ["a", "b"], "ab"),
    ):
        assert before_end(ends, parts) == expected


def test_a_text_has_the_same_end_however_it_is_divided_into_parts():
    ends, text = ["baa", "bbb", "a"], "cbaab"
    for parts in (list(text), [text], ["cbaa", "b"], ["cb", "aab"]):
        assert before_end(ends, parts) == "cb", parts
