"""Error rates of words, phones, characters and sentences, by jiwer."""

from collections.abc import Sequence
from typing import Any

from foveate.errors import DataError, SetupError
from foveate.metrics.named_score import Score, require_pairs


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """100 · (substitutions + deletions + insertions) / words of the references, over the whole corpus.

    Words are separated by white space; case and punctuation count. All words against an empty reference are insertions.

    >>> print(word_error_rate(["the cat sat"], ["the cat sat down"]))
    WER|unit:word|jiwer:... = 25.00

    Raises `DataError` for unequal counts or when no reference has a word.
    """
    return _rate("WER", "word", hypotheses, references)


def phone_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The error rate of phones, or any tokens, separated by spaces.

    >>> round(phone_error_rate(["F OW V IY EY T"], ["F OW V IY EH T"]).value, 2)
    16.67
    """
    return _rate("PER", "phone", hypotheses, references)


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The error rate of characters (Unicode code points); one space between words counts as a character."""
    return _rate("CER", "character", hypotheses, references)


def sentence_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """100 · lines that differ from the reference / lines, ignoring white space. For pronunciations, the word error
    rate.

    >>> sentence_error_rate(["K AE T", "D AO G"], ["K AE T", "D AA G"]).value
    50.0
    """
    require_pairs("SER", hypotheses, references)
    wrong = sum(a != b for a, b in zip(_spaced(hypotheses), _spaced(references), strict=True))
    return Score(name="SER", value=100 * wrong / len(references), signature="unit:line", higher_is_better=False)


def _rate(name: str, unit: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    require_pairs(name, hypotheses, references)
    jiwer, version = _jiwer()
    count = jiwer.process_characters if unit == "character" else jiwer.process_words
    lines = _spaced(references)
    if not any(lines):
        raise DataError(f"{name}: no reference has a {unit}. Check that the file of references is the right one.")
    edits = count(lines, _spaced(hypotheses))
    wrong = edits.substitutions + edits.deletions + edits.insertions
    total = edits.substitutions + edits.deletions + edits.hits
    return Score(name=name, value=100 * wrong / total, signature=f"unit:{unit}|jiwer:{version}", higher_is_better=False)


def _spaced(lines: Sequence[str]) -> list[str]:
    """Lines with single spaces, because jiwer splits at the ordinary space only."""
    return [" ".join(line.split()) for line in lines]


def _jiwer() -> tuple[Any, str]:
    try:
        import jiwer
    except ImportError as error:
        raise SetupError("Word, phone and character error need jiwer: pip install 'foveate[eval]'") from error
    from importlib.metadata import version

    return jiwer, version("jiwer")
