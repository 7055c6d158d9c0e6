"""Translators of several languages, as commands use them."""

from collections.abc import Sequence

from foveate.data.parallel import ParallelData
from foveate.data.text import Pair
from foveate.data.tokeniser import LanguageTokeniser
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.use import Translator


def translated(model: Translator, pairs: Sequence[Pair]) -> list[Translation]:
    """The translation of each source, into the language of its direction where there are several."""
    tokeniser = model.source_tokeniser
    if not isinstance(tokeniser, LanguageTokeniser):
        return model.translate([pair.source for pair in pairs])
    translations: dict[int, Translation] = {}
    for direction in tokeniser.directions:
        group = {number: pair.source for number, pair in enumerate(pairs) if pair.direction == direction}
        answers = model.into(direction.partition("-")[2]).translate(list(group.values()))
        translations |= dict(zip(group, answers, strict=True))
    return [translations[number] for number in range(len(pairs))]


def reader_of(model: Translator, data: ParallelData, row: int) -> Translator:
    """The translator in the direction of a stored pair."""
    tokeniser = model.source_tokeniser
    if data.directions is None or not isinstance(tokeniser, LanguageTokeniser):
        return model
    return model.into(tokeniser.directions[int(data.directions[row])].partition("-")[2])


def example_option(model: Translator) -> str:
    """The option of commands for a model of several languages, with one of them; empty for others."""
    tokeniser = model.source_tokeniser
    return f" --to {tokeniser.targets[0]}" if isinstance(tokeniser, LanguageTokeniser) else ""
