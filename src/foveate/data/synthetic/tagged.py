"""Sentences with words that are nouns or verbs, depending on the context only."""

import random
from collections.abc import Iterator

from foveate.data.labelled import Tagged

BOTH = ("saw", "fish", "plant", "book", "watch", "duck", "stamp", "hammer")
"""Words that are equally often verbs and nouns."""
PRONOUNS = ("I", "you", "we", "they")
DETERMINERS = ("a", "the", "my", "this")
ADJECTIVES = ("old", "big", "red", "small")
ADVERBS = ("often", "never", "gladly")


def tagged_sentences(count: int, *, seed: int = 0) -> Iterator[Tagged]:
    """Short sentences with their parts of speech; reproducible by a seed.

    >>> for sentence in tagged_sentences(3, seed=1):
    ...     print(" ".join(f"{word}/{tag}" for word, tag in zip(sentence.words, sentence.tags)))
    I/PRON never/ADV hammer/VERB this/DET book/NOUN
    I/PRON stamp/VERB a/DET hammer/NOUN
    you/PRON fish/VERB a/DET saw/NOUN
    """
    generator = random.Random(seed)
    for line in range(1, count + 1):
        parts = [(generator.choice(PRONOUNS), "PRON")] if generator.random() < 0.6 else _things(generator)
        if generator.random() < 0.3:
            parts.append((generator.choice(ADVERBS), "ADV"))
        parts += [(generator.choice(BOTH), "VERB"), *_things(generator)]
        words, tags = zip(*parts, strict=True)
        yield Tagged(line, words, tags)


def _things(generator: random.Random) -> list[tuple[str, str]]:
    described = [(generator.choice(ADJECTIVES), "ADJ")] if generator.random() < 0.4 else []
    return [(generator.choice(DETERMINERS), "DET"), *described, (generator.choice(BOTH), "NOUN")]
