import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.inspect import Alignment, report

ROWS = [{"kind": kind, "step": step, "loss": 1 / step} for step in (1, 2, 3) for kind in ("train", "valid")]
VOID = {"meta", "br", "img"}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)


class Outline(HTMLParser):
    """The tags of a page, checked for balance, and all the text outside of styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


@pytest.fixture
def whole(pronunciation: Alignment, persian: Alignment) -> str:
    return report(
        title="Pronunciation",
        summary=[("Phone error", "9.2 %"), ("Model", "BiGRU encoder, GRU decoder")],
        curves=ROWS,
        scores=[{"metric": "chrF", "value": 88.1234, "signature": "nrefs:1|version:2.6.0"}],
        samples=[
            ("foveate", "F OW1 V IY0 EY2 T", "F OW1 B IY0 EY2 T", pronunciation),
            ("در آغاز کلمه بود .", "", "In the beginning was the Word .", persian),
            ("same", "S EY1 M", "S EY1 M", None),
        ],
        card={"data": "CMU dictionary", "limits": ["English only", "guesses names"], "intended_use": "teaching"},
        commands=['foveate translate run "word" --align'],
    )


def test_the_page_has_landmarks_one_heading_and_a_section_for_each_part(whole: str) -> None:
    page = Outline(whole)
    assert [page.count(tag) for tag in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    names = [attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    assert names == ["curves", "scores", "samples", "card", "commands"]
    assert [attributes["aria-labelledby"] for tag, attributes in page.tags if tag == "section"] == names


def test_every_picture_is_described_or_hidden_from_those_who_cannot_see_it(whole: str) -> None:
    pictures = [attributes for tag, attributes in Outline(whole).tags if tag == "svg"]
    assert len(pictures) == 1 + 2 + 2
    assert all(
        attributes.get("aria-hidden") or (attributes["role"], bool(attributes["aria-label"])) == ("img", True)
        for attributes in pictures
    )


def test_the_page_loads_nothing_and_runs_nothing(whole: str) -> None:
    assert set(re.findall(r"https?://[^\"' <]+", whole)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\(|\son\w+=", whole)
    assert "default-src &#x27;none&#x27;" in whole or "default-src 'none'" in whole


def test_the_page_follows_the_reader_into_the_dark(whole: str) -> None:
    assert "prefers-color-scheme:dark" in whole
    assert "color-scheme:light dark" in whole


def test_words_that_differ_from_the_reference_are_marked_in_both(whole: str) -> None:
    assert "F OW1 <mark>B</mark> IY0 EY2 T" in whole
    assert "F OW1 <mark>V</mark> IY0 EY2 T" in whole
    assert 'S EY1 M</bdi> <span class="tag">same as the reference</span>' in whole


def test_what_was_given_is_shown(whole: str) -> None:
    shown = Outline(whole).text
    for words in (
        "9.2 %",
        "88.12",
        "nrefs:1|version:2.6.0",
        "Intended use",
        "guesses names",
        "--align",
        "read right to left",
    ):
        assert words in shown
    assert "Validation ends at 0.333, lowest 0.333 at step 3." in shown or "validation ends at 0.333" in shown


def test_parts_that_are_empty_are_left_out() -> None:
    page = Outline(report(title="Nothing yet"))
    assert (page.count("section"), page.count("h1")) == (0, 1)


def test_an_empty_output_is_called_nothing_and_its_empty_alignment_is_not_drawn() -> None:
    page = report(title="t", samples=[("a", "b", "", Alignment.of("a", "", []))])
    assert "nothing</span>" in page
    assert "<svg" not in page


@settings(max_examples=40, deadline=None)
@given(ANY_TEXT.map(lambda words: words + "<b>&\"'\u202e</script><x>"))
def test_any_text_stays_text(words: str) -> None:
    everything: dict[str, Any] = {
        "summary": [(words, words)],
        "curves": [{"kind": "train", "step": step, words: 1.0} for step in (1, 2)],
        "scores": [{words: words, "b" + words: 1.5}],
        "samples": [(words, words, words + " c", Alignment.of([words], [words], [[1]]))],
        "card": {words: words, "d" + words: [words]},
        "commands": [words],
        "names": (words, words),
    }
    page = report(title=words, **everything)
    assert "\u202e" not in page
    assert not {"b", "x", "script"} & {tag for tag, _ in Outline(page).tags}
    page.encode("utf-8")


def test_the_same_run_gives_the_same_page(whole: str, pronunciation: Alignment) -> None:
    once, again = (report(title="t", curves=ROWS, samples=[("a", "b", "c", pronunciation)]) for _ in range(2))
    assert once == again
