"""Alignment error rate against manual alignments, and their two file formats."""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from foveate.errors import DataError
from foveate.metrics.named_score import Score, require_pairs

Link = tuple[int, int]
_PHARAOH = re.compile(r"(\d{1,9})([-?p])(\d{1,9})")


@dataclass(frozen=True)
class Links:
    """The links (source, target) of one sentence pair, counted from 0. `possible` includes the sure ones.

    >>> links = Links.of(sure={(0, 0)}, possible={(1, 2)})
    >>> str(links), sorted(links.possible)
    ('0-0 1?2', [(0, 0), (1, 2)])
    """

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def of(cls, sure: Iterable[Link], possible: Iterable[Link] = ()) -> "Links":
        sure = frozenset(sure)
        return cls(sure, sure | frozenset(possible))

    def __str__(self) -> str:
        return " ".join(f"{i}{'-' if (i, j) in self.sure else '?'}{j}" for i, j in sorted(self.possible))


def alignment_error_rate(predicted: Sequence[Set[Link]], gold: Sequence[Links]) -> Score:
    """AER = 100 · (1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)), summed over the corpus: A predicted, S sure, P possible.

    A predicted link that is only possible costs nothing; a missing sure link does.

    >>> gold = [Links.of(sure={(0, 0), (1, 1)}, possible={(1, 2)})]
    >>> print(alignment_error_rate([{(0, 0), (1, 2)}], gold))
    AER|links:sure+possible = 25.00

    Reference: Och & Ney 2003, equation 6. Raises `DataError` for unequal counts or without any links.
    """
    require_pairs("AER", predicted, gold)
    pairs = list(zip(predicted, gold, strict=True))
    matches = sum(len(links & right.sure) + len(links & right.possible) for links, right in pairs)
    total = sum(len(links) + len(right.sure) for links, right in pairs)
    if total == 0:
        raise DataError(
            "AER: neither the prediction nor the gold alignment has a link. Check that the files are the right ones."
        )
    kind = "sure" if all(right.sure == right.possible for right in gold) else "sure+possible"
    return Score(name="AER", value=100 * (1 - matches / total), signature=f"links:{kind}", higher_is_better=False)


def link_scores(predicted: Sequence[Set[Link]], gold: Sequence[Links]) -> list[Score]:
    """AER, precision |A ∩ P| / |A| of the predicted links, and recall |A ∩ S| / |S| of the sure links.

    >>> gold = [Links.of(sure={(0, 0), (1, 1)}, possible={(1, 2)})]
    >>> [round(score.value) for score in link_scores([{(0, 0), (1, 2), (2, 2)}], gold)]
    [40, 67, 50]

    Reference: Och & Ney 2003, equations 4 to 6. Raises like `alignment_error_rate`.
    """
    error = alignment_error_rate(predicted, gold)
    pairs = list(zip(predicted, gold, strict=True))
    shares = {
        "precision": (sum(len(a & g.possible) for a, g in pairs), sum(len(a) for a, _ in pairs)),
        "recall": (sum(len(a & g.sure) for a, g in pairs), sum(len(g.sure) for _, g in pairs)),
    }
    return [error] + [
        Score(name=name, value=100 * part / max(whole, 1), signature=error.signature, higher_is_better=True)
        for name, (part, whole) in shares.items()
    ]


def parse_pharaoh(lines: Iterable[str], where: str = "alignment", *, first: int = 1) -> list[Links]:
    """Parse one line per sentence pair: `0-0` is a sure link, `1?2` or `1p2` a possible one; source-target, from 0.

    >>> [str(links) for links in parse_pharaoh(["0-0 1p2 2-1", ""])]
    ['0-0 1?2 2-1', '']

    Raises `DataError` naming the line; `first` is the number of the first line.
    """
    return [_parse_line(line, f"{where}:{number}") for number, line in enumerate(lines, start=first)]


def _parse_line(line: str, where: str) -> Links:
    marks: dict[str, set[Link]] = {"-": set(), "?": set(), "p": set()}
    for text in line.split():
        match = _PHARAOH.fullmatch(text)
        if match is None:
            raise DataError(
                f"{where}: {text!r} is not a link. Write source-target, counted from 0: 0-0 (sure), 1?2 (possible)."
            )
        marks[match[2]].add((int(match[1]), int(match[3])))
    return Links.of(marks["-"], marks["?"] | marks["p"])


def parse_naacl(lines: Iterable[str], sentences: int, where: str = "alignment") -> list[Links]:
    """Parse one line per link: `sentence source target [S|P]`, counted from 1; without a letter the link is sure.

    Position 0 is the empty word; its links are ignored, as in the shared task's scores without null links.

    >>> [str(links) for links in parse_naacl(["0001 1 1 S", "0001 2 3 P", "0002 1 0"], sentences=2)]
    ['0-0 1?2', '']

    Reference: Mihalcea & Pedersen 2003. Raises `DataError` naming the line.
    """
    sure: list[set[Link]] = [set() for _ in range(sentences)]
    possible: list[set[Link]] = [set() for _ in range(sentences)]
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        if (
            len(fields) not in (3, 4)
            or not all(field.isdecimal() and len(field) < 10 for field in fields[:3])
            or fields[3:] not in ([], ["S"], ["P"])
        ):
            raise DataError(
                f"{where}:{number}: {line.strip()!r} is not a link. Write sentence source target S (or P): 1 2 3 S."
            )
        sentence, source, target = (int(field) for field in fields[:3])
        if not 1 <= sentence <= sentences:
            raise DataError(
                f"{where}:{number}: sentence {sentence} does not exist; sentences are counted from 1 to {sentences}."
            )
        if source and target:
            (possible if fields[3:] == ["P"] else sure)[sentence - 1].add((source - 1, target - 1))
    return [Links.of(*both) for both in zip(sure, possible, strict=True)]
