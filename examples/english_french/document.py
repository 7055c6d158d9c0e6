"""Blocks of text in pages of markup and of roff, and their pairs in two languages."""

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html.parser import HTMLParser

from language import extent
from sentencex import segment

Block = tuple[str, str]
"""The structure around a text, such as `p`, and the text."""
MARKUP = re.compile(
    r"h[1-6]|p|li|dt|dd|td|th|title|para|simpara|term|entry|item|caption|subtitle"
    r"|desc|listitem|div|section|body|blockquote|figcaption|option|credit"
)
"""Elements that are blocks of text."""
SKIPPED = re.compile(r"script|style|pre|screen|programlisting|synopsis|code-block|math|svg|info")
"""Elements without text to translate."""
LONGEST = 300
STRUCTURE = re.compile(r"^[.'](TH|SH|SS|TP|TQ|PP|P|LP|IP|HP|RS|RE|EX|EE|nf|fi|TS|TE|br|sp|Sh|Ss|Pp|It|Bl|El)\b ?(.*)")
LITERAL = {"EX": True, "nf": True, "TS": True, "EE": False, "fi": False, "TE": False}
ALTERNATING = re.compile(r"^[.'](BR|RB|IR|RI|BI|IB)\b ?(.*)")
FONT = re.compile(r"^[.'](B|I|SM|SB|R|CW)\b ?(.*)")
ESCAPES = [
    (re.compile(r"\\f(\[[^\]]*\]|\([A-Z]{2}|.)"), ""),
    (re.compile(r"\\s[-+]?\d"), ""),
    (re.compile(r"\\\((co|rg|bu|tm)"), ""),
    (re.compile(r"\\\((aq|cq|oq)|\\\[(aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\((dq|lq|rq)|\\\[(dq|lq|rq)\]"), '"'),
    (re.compile(r"\\\((Fo)|\\\[Fo\]"), "« "),
    (re.compile(r"\\\((Fc)|\\\[Fc\]"), " »"),
    (re.compile(r"\\\((em|en|mi|hy)|\\\[(em|en|mi|hy)\]"), "-"),
    (re.compile(r"\\\(ha|\\\[ha\]"), "^"),
    (re.compile(r"\\\(ti|\\\[ti\]"), "~"),
    (re.compile(r"\\-"), "-"),
    (re.compile(r"\\[&:%|^,/)]"), ""),
    (re.compile(r"\\[~ 0]"), " "),
    (re.compile(r"\\e|\\\(rs|\\\[rs\]"), "/"),
]
"""Escapes of roff and the characters that they stand for."""


def unpacked(content: bytes) -> str:
    """The text of a file, which may be compressed by gzip."""
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def markup_blocks(text: str) -> list[Block]:
    """The blocks of HTML, DocBook or Mallard, in order, without listings.

    >>> markup_blocks("<p>A <b>red</b> hat.</p><pre>rm</pre><ul><li>One</li></ul>")
    [('p', 'A red hat.'), ('li', 'One')]
    """
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.flush()
    return reader.blocks


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.pieces: list[str] = []
        self.open: list[str] = []
        self.skipping = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if SKIPPED.fullmatch(tag):
            self.flush()
            self.skipping += 1
        elif MARKUP.fullmatch(tag):
            self.flush()
            self.open.append(tag)
        elif tag == "br":
            self.pieces.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.pieces.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if SKIPPED.fullmatch(tag):
            self.skipping = max(self.skipping - 1, 0)
        elif tag in self.open:
            self.flush()
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.pieces.append(data)

    def flush(self) -> None:
        text = " ".join("".join(self.pieces).split())
        self.pieces.clear()
        if text:
            self.blocks.append((self.open[-1] if self.open else "", text))


def roff_blocks(text: str) -> list[Block]:
    r"""The blocks of a manual page, in order, without examples and tables.

    >>> roff_blocks(".SH NAME\nls \\- list files\n.PP\nSee\n.BR cat (1)\nand \\fBrm\\fP.")
    [('SH', 'NAME'), ('SH', 'ls - list files'), ('PP', 'See cat(1) and rm.')]
    """
    blocks: list[Block] = []
    kind, pieces, literal = "", list[str](), False

    def flush() -> None:
        joined = " ".join(" ".join(pieces).split())
        pieces.clear()
        if joined:
            blocks.append((kind, joined))

    for line in text.splitlines():
        if line.startswith(('.\\"', "'\\\"")):
            continue
        if match := STRUCTURE.match(line):
            flush()
            kind = {"P": "PP", "LP": "PP"}.get(match[1], match[1])
            literal = LITERAL.get(match[1], literal)
            if match[1] in ("SH", "SS") and match[2]:
                pieces.append(_plain(match[2].strip('"')))
                flush()
        elif literal:
            continue
        elif match := ALTERNATING.match(line):
            pieces.append("".join(_plain(word) for word in _arguments(match[2])))
        elif match := FONT.match(line):
            pieces.append(" ".join(_plain(word) for word in _arguments(match[2])))
        elif line.startswith((".", "'")) or not line.strip():
            flush()
            if kind == "TP" and not line.strip():
                kind = "PP"
        else:
            pieces.append(_plain(line))
            if kind == "TP":
                flush()
                kind = "TP text"
    flush()
    return blocks


def _arguments(text: str) -> list[str]:
    return [quoted.strip('"') if quoted else word for quoted, word in re.findall(r'("[^"]*")|((?:\\ |\S)+)', text)]


def _plain(text: str) -> str:
    for pattern, replacement in ESCAPES:
        text = pattern.sub(replacement, text)
    return text


def paired(english: Sequence[Block], translation: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """The texts of blocks in the same places of the two structures; other blocks are left out.

    Structures that are less than four fifths alike have no pairs.

    >>> list(paired([("h1", "Hats"), ("p", "Red."), ("p", "Blue.")], [("h1", "Chapeaux"), ("p", "Rouge.")]))
    [('Hats', 'Chapeaux'), ('Red.', 'Rouge.')]
    """
    kinds = [[kind for kind, _ in blocks] for blocks in (english, translation)]
    if kinds[0] == kinds[1]:
        yield from ((one, other) for (_, one), (_, other) in zip(english, translation, strict=True))
        return
    matcher = SequenceMatcher(None, _anchors(english), _anchors(translation), autojunk=False)
    if matcher.ratio() < 0.8:
        return
    for here, there, size in matcher.get_matching_blocks():
        for step in range(size):
            yield english[here + step][1], translation[there + step][1]


def _anchors(blocks: Sequence[Block]) -> list[str]:
    """The kinds of blocks, with the digits and the words in capitals that a translation keeps."""
    return [f"{kind} {' '.join(re.findall(r'[0-9]+|[(][0-9a-z][)]', text))}" for kind, text in blocks]


@dataclass(frozen=True)
class _Length:
    """Whether two texts may translate each other by their lengths."""

    ratio: float = 1.8
    slack: int = 12

    def __call__(self, one: str, other: str) -> bool:
        lengths = extent(one), extent(other)
        return max(lengths) <= self.ratio * min(lengths) + self.slack


def sentence_pairs(english: str, translation: str, code: str = "fr") -> Iterator[tuple[str, str]]:
    """The sentences of a text and of its translation, if there are equally many of similar lengths; else the texts.

    >>> list(sentence_pairs("It rains. We stay at home.", "Il pleut. Nous restons à la maison."))
    [('It rains.', 'Il pleut.'), ('We stay at home.', 'Nous restons à la maison.')]
    """
    ones, others = (
        [
            part
            for line in text.split("\n\n")
            for each in segment(language, " ".join(line.split()))
            if (part := each.strip())
        ]
        for language, text in (("en", english), (code, translation))
    )
    alike = _Length()
    if len(ones) == len(others) and all(alike(one, other) for one, other in zip(ones, others, strict=True)):
        yield from zip(ones, others, strict=True)
    elif alike(english, translation) and max(len(english), len(translation)) <= LONGEST:
        yield english, translation
