"""Small reviews in bytes, whose label depends on praise and blame in distant words."""

import random
from collections.abc import Iterator

from foveate.data.synthetic.labelled_sequence import Labelled

GOOD = ("brilliant", "charming", "clever", "delightful", "gripping", "moving", "splendid", "witty")
BAD = ("boring", "clumsy", "dreadful", "dull", "feeble", "hollow", "tedious", "wooden")
PARTS = ("the acting", "the camera", "the dialogue", "the ending", "the music", "the pace", "the plot", "the script")
FILLER = (
    "we went on a Tuesday.",
    "the cinema was half full.",
    "it runs for two hours.",
    "my sister had read the book.",
    "it was raining when we left.",
    "there is a scene on a train.",
    "the story begins in a harbour town.",
    "somebody behind us ate crisps.",
)


def opinions(
    count: int, *, seed: int = 0, longest: int = 1000, fillers: float = 0.5, denied: float = 0.3
) -> Iterator[Labelled]:
    """Reviews of at most `longest` bytes and at least half of them; label 1 if they praise more than they blame.

    Each sentence praises or blames a part, sometimes by denying the opposite ("not at all dull"); other sentences are
    neutral.

    >>> example = next(opinions(1, longest=120))
    >>> print(bytes(id - 1 for id in example.ids).decode(), "=", example.label)
    the cinema was half full. the music was dreadful. the cinema was half full. = 0
    """
    generator = random.Random(seed)
    complete = 0
    while complete < count:
        size, text, balance = generator.randint(longest // 2, longest), "", 0
        while True:
            sentence, verdict = _sentence(generator, fillers, denied)
            if len(text) + len(sentence) + 1 > size:
                break
            text, balance = f"{text} {sentence}".lstrip(), balance + verdict
        if balance and text:
            complete += 1
            yield Labelled([byte + 1 for byte in text.encode()], int(balance > 0))


def _sentence(generator: random.Random, fillers: float, denied: float) -> tuple[str, int]:
    """A sentence, with 1 for praise, −1 for blame or 0."""
    if generator.random() < fillers:
        return generator.choice(FILLER), 0
    verdict, denies = generator.choice((1, -1)), generator.random() < denied
    word = generator.choice(GOOD if (verdict > 0) != denies else BAD)
    return f"{generator.choice(PARTS)} was {'not at all ' if denies else ''}{word}.", verdict
