"""The formula of a mechanism from q and k to the context, term by term, with the numbers of one query."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate.attention.score import PairNetwork
from foveate.errors import UsageError
from foveate.inspect.alignment import join_pieces
from foveate.inspect.caption import printable
from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.picture_file import written
from foveate.inspect.figure.raster import DPI, rasterised
from foveate.inspect.step import mathml as m
from foveate.inspect.step import writing
from foveate.inspect.step.drawing import drawing
from foveate.inspect.step.mathml import subscript
from foveate.inspect.step.table import Numbers
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Trace
from foveate.inspect.value import LONGEST

KEYS, DIMS = 12, 8


@dataclass(frozen=True)
class Step:
    """One term of a formula, with its numbers."""

    symbol: str
    mathml: str
    numbers: Numbers
    about: str
    keys: list[int] | None = None
    """The keys of the rows of numbers."""
    labels: tuple[str, ...] | None = None
    """The labels of these keys."""
    hidden: tuple[bool, ...] | None = None
    """Whether each of these keys is hidden from the query, after the step that applies visibility."""

    def header(self) -> dict[str, Any]:
        """Plain data for JSON, where NaN and infinity are words. The viewer has the labels of keys and the hidden keys
        already.
        """
        plain = {**asdict(self), "numbers": _told(self.numbers)}
        return {name: part for name, part in plain.items() if name not in ("labels", "hidden")}

    def __str__(self) -> str:
        return writing.text(self)

    def __repr__(self) -> str:
        return f"<Step {self.symbol}: {self.about}>"

    def _repr_html_(self) -> str:
        return writing.html([self])

    def svg(self) -> str:
        """The formula, its sentence and its numbers as a drawing."""
        return drawing([self])

    def latex(self) -> str:
        """The step for a LaTeX document with amsmath."""
        return writing.tex([self])

    def save(self, path: str | Path, *, dpi: int | float = DPI) -> Path:
        """Write the step as `.svg`, `.png`, `.pdf`, `.tex` or `.txt`."""
        return Steps([self]).save(path, dpi=dpi)


class Steps(list[Step]):
    """Steps in their order. They print as text, have a display in notebooks, and can be saved as a picture or LaTeX."""

    def __init__(self, steps: Iterable[Step] = (), title: str = "", remark: str = "") -> None:
        super().__init__(steps)
        self.title = title
        self.remark = remark
        """A remark below the steps about missing parts, and how to get them."""

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [self.title, *map(str, self), self.remark]))

    def __repr__(self) -> str:
        return f"<Steps{f' of {self.title}' if self.title else ''}: {', '.join(step.symbol for step in self)}>"

    def _repr_html_(self) -> str:
        return writing.html(self, self.title, self.remark)

    def svg(self) -> str:
        """All steps below one another as a drawing."""
        return drawing(self, self.title, self.remark)

    def latex(self) -> str:
        """Formulas and tables for a LaTeX document with amsmath."""
        return writing.tex(self, self.title, self.remark)

    def save(self, path: str | Path, *, dpi: int | float = DPI) -> Path:
        """Write the steps as `.svg`, `.png`, `.pdf`, `.tex` or `.txt`, by the name's ending.

        Raises UsageError for another ending, SetupError for a file that cannot be written and for letters that no font
        has.
        """
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                content = self.svg().encode()
            case ".png":
                content = rasterised(self.svg(), dpi=dpi, details={"Title": self.title or "Steps"})
            case ".pdf":
                content = pdf(self.svg().encode())
            case ".tex":
                content = self.latex().encode()
            case ".txt":
                content = f"{self}\n".encode()
            case suffix:
                raise UsageError(
                    f"{path}: steps are not written as {suffix or 'a file without ending'!r}. Choose .svg, .pdf, .png, "
                    ".tex (for a document with amsmath) or .txt."
                )
        written(path, content, "steps")
        return path


def steps(trace: Trace, site: int | str, head: int, query: int) -> Steps:
    """All terms between one query and its context, for at most 12 keys, those with the largest weights, and 8 features.

    They print as text with three digits, have a display in notebooks, and are saved by `.save("steps.svg")` as SVG,
    PNG, PDF, LaTeX or text.

    >>> from foveate.attention import Attention, Dot, record
    >>> attention = Attention(Dot())
    >>> q = torch.tensor([[1.0, 0, 2], [2, 2, 2], [2, 1, 3]])[None, None]
    >>> k = torch.tensor([[0.0, 1, 1], [4, 4, 0], [2, 3, 1]])[None, None]
    >>> with record(attention) as recording:
    ...     _ = attention.run(query=q, key=k, value=k)
    >>> for step in steps(Trace.of(recording), 0, 0, 0)[-1:]:
    ...     print(step.symbol, step.numbers, step.about)
    α₀ [0.06338, 0.4683, 0.4683] The weights: each exponential over their sum. They sum to 1.
    """
    here = trace.sites[trace.index(site)]
    if not 0 <= head < here.heads or not 0 <= query < here.queries:
        raise UsageError(
            f"{here.title} has heads 0 to {here.heads - 1} and queries 0 to {here.queries - 1}; "
            f"head {head} with query {query} is not among them."
        )
    walked = _Walk(here, head, query)
    keys = trace.tracks[here.key].labels
    labels = tuple(join_pieces([keys[key]]) for key in walked.keys.tolist())
    hidden = tuple((~walked.visible[walked.keys]).tolist())
    named, counts = Steps(), False
    for step in walked.steps():
        weighed = hidden if counts and any(hidden) else None
        named.append(step if step.keys is None else replace(step, labels=labels, hidden=weighed))
        counts = counts or step.symbol == "visible"
    named.remark = _missing(here)
    label = printable(join_pieces([trace.tracks[here.query].labels[query]]))
    named.title = f"{here.title}, head {head}, query {query} ({label})"
    return named


def _missing(site: Site) -> str:
    """Why steps end at the weights; empty if they continue to the context."""
    if "value" in site.tensors:
        return ""
    if site.shows != "exact":
        return f"These weights are {site.shows}: the mechanism does not make its context from them one by one."
    return (
        "The trace has no values here, so α·v and the context are missing. Traces of `foveate look` and of `.trace` "
        f"keep them up to {LONGEST:,} tokens; `foveate.inspect.hugging_face.record(model, values=True)` keeps them, "
        "and so does `foveate.inspect.observe(model)` wherever an attention runs by itself."
    )


class _Walk:
    def __init__(self, site: Site, head: int, query: int) -> None:
        self.site, self.head, self.query = site, head, query
        self.row = slice(query, query + 1)
        weights, visible = site.weights(head, self.row)
        self.weights = weights[0]
        self.visible = torch.ones(site.keys, dtype=torch.bool) if visible is None else visible[0]
        self.scores = site.scores(head, self.row)[0]
        count = min(KEYS, site.keys)
        self.keys = self.weights.topk(count).indices.sort().values if site.keys > KEYS else torch.arange(site.keys)
        self.i = subscript(query)

    def steps(self) -> Iterator[Step]:
        yield from self._score()
        yield from self._bias()
        yield from self._seen()
        yield from self._normalised()
        yield from self._reweighted()
        yield from self._context()

    # -- scores

    def _score(self) -> Iterator[Step]:
        kind = self.site.score["kind"]
        if kind == "dense":
            about = "The scores, recorded pair by pair: this mechanism has no shorter form."
            yield self._of_keys(f"e{self.i}", m.math(_e()), self.scores, about)
            return
        query = self.site.tensors["query"][self.head, self.query].float()
        key = self.site.tensors["key"][self.head // (self.site.heads // self.site.kv_heads)][self.keys].float()
        some = "" if len(query) <= DIMS else f" Its first {DIMS} of {len(query)} numbers."
        yield Step(f"q{self.i}", m.math(_sub("q", bold=True)), _short(query), f"What the query asks for.{some}")
        offered = m.math(m.sub(m.name("k", bold=True), m.name("j")))
        yield self._of_keys("k", offered, key[:, :DIMS], f"What each key offers.{some}")
        yield from (self._products(query, key) if kind == "product" else self._sums(query, key))

    def _products(self, query: Tensor, key: Tensor) -> Iterator[Step]:
        factor = float(self.site.score["factor"])
        each = m.math(_sub("q", "d"), m.sign("·"), m.sub(m.name("k"), m.name("j"), m.name("d")))
        yield self._of_keys("q·k terms", each, _with_rest(query * key), "Number by number; the last sums the rest."
                            if len(query) > DIMS else "Number by number.")  # fmt: skip
        dot = m.math(m.total(m.name("d"), m.row(_plain("q", "d"), m.sub(m.name("k"), m.name("j"), m.name("d")))))
        products = key @ query
        yield self._of_keys("q·k", dot, products, "Their sum: how well query and key match.")
        if factor != 1.0:
            scale = m.math(_e(), m.sign("="), m.row(m.number(factor), m.sign("·"), m.name("q·k")))
            width = 1 / factor**2
            whole = abs(width - round(width)) < 1e-6 * width
            why = f" = 1/√{round(width)}" if whole else ""
            yield self._of_keys(f"e{self.i}", scale, products * factor, f"Scaled by {factor:.4g}{why}.")

    def _sums(self, query: Tensor, key: Tensor) -> Iterator[Step]:
        vector = self.site.tensors["vector"]
        vector = vector[0] if len(vector) == 1 else vector[self.head]
        form = self.site.form(self.head)
        assert isinstance(form, PairNetwork)
        name = "tanh" if form.slope is None else "LeakyReLU"
        inside = m.row(_plain("q", "d"), m.sign("+"), m.sub(m.name("k"), m.name("j"), m.name("d")))
        yield self._of_keys("q+k", m.math(inside), (query + key)[:, :DIMS], "The projected query and key, added.")
        hidden = form.activated(query + key)
        about = "Bent into −1 to 1." if form.slope is None else f"What is negative is multiplied by {form.slope:.4g}."
        yield self._of_keys(name, m.math(m.call(name, inside)), hidden[:, :DIMS], about)
        weighed = m.row(m.sub(m.name("v"), m.name("d")), m.call(name, inside))
        terms = _with_rest(hidden * vector)
        yield self._of_keys(f"v·{name} terms", m.math(weighed), terms, "Weighed by the trained vector v.")
        total = m.math(_e(), m.sign("="), m.total(m.name("d"), weighed))
        yield self._of_keys(f"e{self.i}", total, hidden @ vector, "Their sum: how well query and key match.")

    def _bias(self) -> Iterator[Step]:
        bias = self.site._bias(self.head, self.row, self.keys)
        if bias is None:
            return
        formula = m.math(_e(), m.sign("+"), m.sub(m.name("b"), m.name("i"), m.name("j")))
        by_distance = (self.site.bias or {}).get("kind") == "distance"
        kind = "by the distance from query to key" if by_distance else "by the pair"
        yield self._of_keys("b", m.math(m.sub(m.name("b"), m.name("i"), m.name("j"))), bias[0], f"A bias {kind}.")
        yield self._of_keys(f"e{self.i} + b", formula, self.scores[self.keys], "Score and bias.")

    def _seen(self) -> Iterator[Step]:
        if bool(self.visible.all()):
            return
        hidden = int((~self.visible).sum())
        formula = m.math(m.name("j"), m.sign("∈"), m.call("visible", m.name("i")))
        about = f"{self.site.visibility['code']} hides {hidden} of {self.site.keys} keys: they weigh exactly 0."
        yield self._of_keys("visible", formula, self.visible.float(), about)

    # -- weights

    def _normalised(self) -> Iterator[Step]:
        kind = self.site.normaliser["kind"]
        plain = self.weights
        reweight = self.site._reweight(self.head, self.row, slice(None))
        if reweight is not None:
            plain = torch.where(self.visible, plain / reweight[0].exp(), 0.0)
        if kind == "softmax":
            yield from self._softmax(plain)
        elif kind == "relu":
            yield from self._relu(plain)
        else:
            yield from self._threshold(plain, kind)

    def _softmax(self, weights: Tensor) -> Iterator[Step]:
        temperature = float(self.site.normaliser.get("temperature", 1.0))
        scores = torch.where(self.visible, self.scores / temperature, -torch.inf)
        top = float(scores.max()) if bool(self.visible.any()) else 0.0
        shift = top if top > 60 else 0.0
        inside = [_e()] if temperature == 1.0 else [m.fraction(_e(), m.number(temperature))]
        inside += [m.sign("−"), m.number(shift)] if shift else []
        powers = (scores - shift).exp()
        exponential = m.power(m.name("e"), m.row(*inside))
        note = f" {shift:.4g} is taken from every score first, which changes no weight." if shift else ""
        yield self._of_keys("exp", m.math(exponential), powers, f"Exponentials: all positive.{note}")
        summed = m.total(m.name("j"), exponential)
        yield Step("Σ", m.math(summed), _rounded(float(powers.sum())), "Their sum over the visible keys.")
        formula = m.math(_alpha(), m.sign("="), m.fraction(exponential, summed))
        total = "They sum to 1." if bool(powers.any()) else "This query sees nothing."
        yield self._of_keys(f"α{self.i}", formula, weights, f"The weights: each exponential over their sum. {total}")

    def _relu(self, weights: Tensor) -> Iterator[Step]:
        positive = torch.where(self.visible, self.scores, 0.0).relu()
        rectified = m.call("max", m.number(0), m.sign(","), _e())
        if not self.site.normaliser.get("normalised", True):
            yield self._of_keys(f"α{self.i}", m.math(_alpha(), m.sign("="), rectified), weights, "The weights.")
            return
        yield self._of_keys("max(0, e)", m.math(rectified), positive, "What is negative counts nothing.")
        summed = m.total(m.name("j"), rectified)
        yield Step("Σ", m.math(summed), _rounded(float(positive.sum())), "Their sum over the visible keys.")
        formula = m.math(_alpha(), m.sign("="), m.fraction(rectified, summed))
        yield self._of_keys(f"α{self.i}", formula, weights, "The weights: each over their sum.")

    def _threshold(self, weights: Tensor, kind: str) -> Iterator[Step]:
        statistic = float(self.site.tensors["statistic"][self.head, self.query])
        if kind in ("sparsemax", "entmax"):
            about = "The threshold with which the row sums to 1; scores below it weigh nothing."
            yield Step(f"τ{self.i}", m.math(m.sub(m.name("τ"), m.name("i"))), _rounded(statistic), about)
        formula, about = _NORMALISED[kind]
        yield self._of_keys(f"α{self.i}", m.math(_alpha(), m.sign("="), formula), weights, about)

    def _reweighted(self) -> Iterator[Step]:
        reweight = self.site._reweight(self.head, self.row, self.keys)
        if reweight is None:
            return
        gauss = m.math(m.power(m.name("e"), m.row(m.sign("−"), m.fraction(
            m.power(m.row(m.sign("("), m.name("j"), m.sign("−"), m.sub(m.name("p"), m.name("i")), m.sign(")")),
                    m.number(2)), m.row(m.number(2), m.power(m.name("σ"), m.number(2)))))))  # fmt: skip
        yield self._of_keys("exp(r)", gauss, reweight[0].exp(), "The farther from where the query points, the less.")
        formula = m.math(_alpha(), m.sign("·"), m.name("exp(r)"))
        yield self._of_keys(f"α{self.i}′", formula, self.weights, "The weights that count: the row may sum to less.")

    def _context(self) -> Iterator[Step]:
        if "value" not in self.site.tensors:
            return
        values = self.site.tensors["value"].float()
        value = values[self.head // (self.site.heads // len(values))]
        each = m.row(_alpha(), m.sub(m.name("v", bold=True), m.name("j")))
        mixed = (self.weights[self.keys, None] * value[self.keys])[:, :DIMS]
        yield self._of_keys("α·v", m.math(each), mixed, "Each value times its weight.")
        formula = m.math(_sub("c", bold=True), m.sign("="), m.total(m.name("j"), each))
        yield Step(f"c{self.i}", formula, _short(self.weights @ value), "Their sum over all keys: the context.")

    def _of_keys(self, symbol: str, formula: str, numbers: Tensor, about: str) -> Step:
        shown = numbers[self.keys] if numbers.dim() == 1 and len(numbers) == self.site.keys else numbers
        listed = [_short(part, DIMS + 1) for part in shown] if shown.dim() == 2 else _short(shown, KEYS)
        return Step(symbol, formula, listed, about, self.keys.tolist())


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _told(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_told(each) for each in numbers]
    if math.isfinite(numbers):
        return numbers
    return "NaN" if math.isnan(numbers) else "∞" if numbers > 0 else "−∞"


def _short(numbers: Tensor, most: int = DIMS) -> Any:
    return [_rounded(value) for value in numbers[:most].tolist()]


def _with_rest(terms: Tensor) -> Tensor:
    """The first eight terms of each row, and the sum of the others."""
    if terms.shape[1] <= DIMS:
        return terms
    return torch.cat([terms[:, :DIMS], terms[:, DIMS:].sum(1, keepdim=True)], 1)


def _sub(letter: str, *more: str, bold: bool = False) -> str:
    return m.sub(m.name(letter, bold=bold), m.name("i"), *map(m.name, more))


def _plain(letter: str, *index: str) -> str:
    return m.sub(m.name(letter), m.name("i"), *map(m.name, index))


def _e() -> str:
    return m.sub(m.name("e"), m.name("i"), m.name("j"))


def _alpha() -> str:
    return m.sub(m.name("α"), m.name("i"), m.name("j"))


_TAU = m.sub(m.name("τ"), m.name("i"))
_NORMALISED = {
    "sigmoid": (
        m.fraction(m.number(1), m.row(m.number(1), m.sign("+"), m.power(m.name("e"), m.row(m.sign("−"), _e())))),
        "Every key is weighed by itself; a row need not sum to 1.",
    ),
    "sparsemax": (m.call("max", m.number(0), m.sign(","), _e(), m.sign("−"), _TAU), "What is above the threshold."),
    "entmax": (
        m.power(m.call("max", m.number(0), m.sign(","), m.row(m.name("(a−1)"), _e()), m.sign("−"), _TAU),
                m.fraction(m.number(1), m.name("a−1"))),
        "A power of what is above the threshold.",
    ),
    "hard": (m.row(m.sign("["), m.name("j"), m.sign("="), m.name("argmax"), m.sign("]")), "All on the largest score."),
    "proportional": (m.fraction(_e(), m.total(m.name("j"), _e())), "Each score over their sum."),
}  # fmt: skip
