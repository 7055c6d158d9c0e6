"""What spans keep to, whatever sequence of tags a model writes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from foveate.metrics import span_f1, spans
from foveate.metrics.span import Span

MARKS = [f"{mark}-{kind}" for mark in "BIESLU" for kind in ("PER", "LOC")]
sequences = st.lists(st.sampled_from(["O", *MARKS]), max_size=9)
chunks = st.lists(st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 3)), max_size=6)


def as_bio(pieces: Sequence[tuple[str, int]]) -> tuple[list[str], list[Span]]:
    """Tags of pieces that follow each other, and the spans that they are."""
    tags, found = list[str](), list[Span]()
    for kind, length in pieces:
        if kind:
            found.append(Span(kind, len(tags), len(tags) + length))
        tags += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)] if kind else ["O"] * length
    return tags, found


@given(sequences)
def test_every_marked_word_is_in_one_span_of_its_kind_and_no_other_word_in_any(tags: list[str]) -> None:
    kinds = [""] * len(tags)
    for kind, begin, end in spans(tags):
        assert begin < end
        assert not any(kinds[begin:end])
        kinds[begin:end] = [kind] * (end - begin)
    assert kinds == [tag.partition("-")[2] for tag in tags]


@given(sequences)
def test_a_beginning_begins_and_an_end_ends(tags: list[str]) -> None:
    found = spans(tags)
    for place, tag in enumerate(tags):
        if tag[0] in "BSU":
            assert place in {span.begin for span in found}
        if tag[0] in "ESLU":
            assert place + 1 in {span.end for span in found}


@given(chunks)
def test_tags_written_from_spans_are_read_as_those_spans(pieces: list[tuple[str, int]]) -> None:
    tags, found = as_bio(pieces)
    assert spans(tags) == found


@given(st.lists(st.tuples(sequences, sequences), min_size=1, max_size=4))
def test_the_score_is_that_of_sets_and_the_same_from_both_sides(pairs: list[tuple[list[str], list[str]]]) -> None:
    predicted, gold = [list(side) for side in zip(*pairs, strict=True)]
    one, other = ({(i, span) for i, tags in enumerate(side) for span in spans(tags)} for side in (predicted, gold))
    expected = 200 * len(one & other) / (len(one) + len(other)) if one or other else 0.0
    assert abs(span_f1(predicted, gold).value - expected) < 1e-9
    assert span_f1(predicted, gold).value == span_f1(gold, predicted).value
