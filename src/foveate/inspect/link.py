"""Links between words: conversion to pieces, and symmetrisation of two directions."""

from collections.abc import Iterable, Sequence, Set
from typing import Literal

from foveate.errors import DataError
from foveate.inspect.alignment import Span, join_pieces, word_spans

Link = tuple[int, int]
Symmetry = Literal["intersection", "union", "grow_diag", "grow_diag_final", "grow_diag_final_and"]
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def require_words(links: Iterable[Link], texts: tuple[str, str], place: str) -> None:
    """Raise `DataError` for a link (source, target) to a word that does not exist. Words are separated by spaces."""
    for link in sorted(links):
        for side, text, word in zip(("source", "target"), texts, link, strict=True):
            if word >= len(text.split()):
                raise DataError(
                    f"{place}: the link {link[0]}-{link[1]} names {side} word {word}, but there are "
                    f"{len(text.split())}, counted from 0. Words are separated by spaces: are the links of another "
                    "line, or of a text that was split otherwise?"
                )


def text_spans(pieces: Sequence[str], text: str, first: int = 0) -> tuple[Span, ...]:
    """The spans among pieces of the words of a text, which are separated by spaces. Pieces before `first` are tags.

    >>> text_spans(["▁un", "seen", "▁", "things"], "unseen things")
    ((0, 2), (2, 4))
    >>> text_spans(["<2fa>", "▁un", "seen"], "unseen", first=1)
    ((1, 3),)

    Pieces of white space do not belong to a word; the pieces of a single word need no marks. Raises `DataError` if the
    pieces form another number of words, because links could then be assigned to wrong words.
    """
    words = len(text.split())
    if words == 1 and len(pieces) > first:
        return ((first, len(pieces)),)
    inside = [(begin + first, end + first) for begin, end in word_spans(pieces[first:], by_spaces=True)]
    spans = tuple(span for span in inside if join_pieces(pieces[slice(*span)]).strip(" ▁Ġ"))
    if len(spans) != words:
        raise DataError(
            f"the tokeniser makes {len(spans)} words of the {words} in {text!r}, so links between words cannot be "
            "told. Choose a tokeniser that keeps words apart, or write the text with single spaces."
        )
    return spans


def piece_links(links: Iterable[Link], source: Sequence[Span], target: Sequence[Span]) -> list[Link]:
    """Links between all pieces of a source word and all pieces of the target word that it is linked with.

    >>> piece_links([(0, 1)], source=[(0, 2)], target=[(0, 1), (1, 2)])
    [(0, 1), (1, 1)]
    """
    return sorted({(s, t) for i, j in links for s in range(*source[i]) for t in range(*target[j])})


def symmetrise(forward: Set[Link], backward: Set[Link], how: Symmetry = "grow_diag_final_and") -> set[Link]:
    """Combine two sets of links (source, target) from opposite directions.

    The intersection is precise, the union complete. `grow_diag` starts with the intersection and repeatedly
    adds neighbours from the union, also diagonal ones, whose source or target has no link yet. `final` then adds links
    of either direction whose source or target has no link; `final_and` those whose source and target have no link.

    >>> sorted(symmetrise({(0, 0), (1, 1), (1, 2)}, {(0, 0), (2, 2)}, "grow_diag"))
    [(0, 0), (1, 1), (1, 2), (2, 2)]

    Reference: Koehn, Och & Marcu 2003; Koehn et al. 2005. Neighbours are visited in the order of their sources.
    """
    if how == "intersection":
        return set(forward) & set(backward)
    union = set(forward) | set(backward)
    if how == "union":
        return union
    links = _grown(set(forward) & set(backward), union)
    if how != "grow_diag":
        for direction in (forward, backward):
            _finish(links, direction, both=how == "grow_diag_final_and")
    return links


def _grown(links: set[Link], union: set[Link]) -> set[Link]:
    added = True
    while added:
        added = False
        for source, target in sorted(links):
            for down, right in _NEIGHBOURS:
                new = (source + down, target + right)
                if new in union and new not in links and not all(_taken(links, new)):
                    links.add(new)
                    added = True
    return links


def _finish(links: set[Link], direction: Set[Link], *, both: bool) -> None:
    for link in sorted(direction):
        taken = _taken(links, link)
        if not (any(taken) if both else all(taken)):
            links.add(link)


def _taken(links: Set[Link], link: Link) -> tuple[bool, bool]:
    """Whether the source and the target of a link have one already."""
    return any(s == link[0] for s, _ in links), any(t == link[1] for _, t in links)
