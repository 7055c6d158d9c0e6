"""Steps as text, picture, LaTeX and a notebook's display."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from foveate.attention import Attention, Entmax, ScaledDot, Sigmoid, causal, record
from foveate.attention.normaliser import Hard
from foveate.attention.score import Additive
from foveate.errors import SetupError, UsageError
from foveate.inspect import Step, Steps, Trace, Track, observe, position_steps, steps
from foveate.inspect.caption import cell_width
from foveate.inspect.step.formula import boxed, escaped, latex, plain
from foveate.inspect.step.number import aligned

LABELS = ["▁The", "▁گربه", "▁<b>", "▁猫_&"]


def walked(attention: Attention, *, dim: int = 16, query: int = 2) -> Steps:
    torch.manual_seed(3)
    x = torch.randn(1, 1, 4, dim)
    with observe(attention) as recording, torch.no_grad():
        attention.run(x, x.roll(1, 2), x)
    return steps(Trace.of(recording, {"source": Track.of_pieces(LABELS)}), 0, 0, query)


@pytest.fixture
def masked() -> Steps:
    return walked(Attention(ScaledDot(), visibility=causal()))


def everything() -> Iterator[Steps]:
    yield walked(Attention(ScaledDot(), visibility=causal()))
    yield walked(Attention(Additive(query_dim=16, key_dim=16, hidden_dim=5)).eval())
    for normaliser in (Entmax(1.5), Sigmoid(), Hard()):
        yield walked(Attention(ScaledDot(), normaliser=normaliser))
    yield position_steps(3, 6)


def test_steps_are_a_list_that_says_what_it_holds(masked: Steps) -> None:
    assert isinstance(masked, list)
    assert repr(masked) == (
        "<Steps of attention, head 0, query 2 (<b>): q₂, k, q·k terms, q·k, e₂, visible, exp, Σ, α₂, α·v, c₂>"
    )
    assert repr(masked[0]) == "<Step q₂: What the query asks for. Its first 8 of 16 numbers.>"


def test_numbers_of_a_step_stand_in_columns_of_three_digits(masked: Steps) -> None:
    (step,) = (step for step in masked if step.symbol == "α₂")
    head, labels, numbers = str(step).split("\n")
    assert head == "α₂:  αᵢⱼ = e^eᵢⱼ/(∑ⱼ e^eᵢⱼ)   The weights: each exponential over their sum. They sum to 1."
    assert labels.split() == ["The", "گربه", "<b>", "猫_&"]
    assert [len(number) for number in numbers.split()] == [5, 5, 5, 1]
    assert sum(float(number) for number in numbers.split()[:3]) == pytest.approx(1, abs=2e-3)
    (matrix,) = (str(step).split("\n")[2:] for step in masked if step.symbol == "k")
    assert len({cell_width(row) for row in matrix}) == 1


def test_hidden_keys_differ_from_zeros_after_visibility_applies(masked: Steps) -> None:
    shown = {step.symbol: str(step).split("\n") for step in masked}
    assert shown["visible"][-1].split() == ["1", "1", "1", "0"]
    assert [shown[symbol][-1].split()[-1] for symbol in ("exp", "α₂")] == ["–", "–"]
    assert shown["α·v"][-1].split()[1:] == ["–"] * 8
    assert "–" not in "".join(shown["q·k"] + shown["k"] + shown["c₂"])
    assert "#eceae6" in masked.svg()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.4683105, 0.06338, 0.0], ["0.468", "0.063", "0.000"]),
        ([54.598, -7.389], ["54.6", "−7.4"]),
        ([1234.5, 1.0], ["1235", "1"]),
        ([0.5, 1e-9], ["0.500", "1e−9"]),
        ([1e-9, 0.0], ["1.00e−9", "0"]),
        ([1.5e9, -3.25], ["1.50e9", "−3.25e0"]),
        ([2e7, -3.0, 0.0], ["2.00e7", "−3.00e0", "0"]),
        ([float("nan"), float("inf"), float("-inf"), 2.0], ["NaN", "∞", "−∞", "2"]),
        ([], []),
    ],
)
def test_numbers_have_three_digits_and_no_number_looks_like_zero(values: list[float], shown: list[str]) -> None:
    assert aligned(values) == shown
    for value, text in zip(values, aligned(values), strict=True):
        assert (value == 0) == (not re.search(r"[1-9∞N]", text))


@pytest.mark.parametrize("number", range(6))
def test_every_mechanism_is_drawn_within_its_picture(number: int) -> None:
    drawn = list(everything())[number]
    root = ElementTree.fromstring(drawn.svg())
    wide, high = float(root.attrib["width"]), float(root.attrib["height"])
    svg = "{http://www.w3.org/2000/svg}"
    for rect in list(root.iter(f"{svg}rect"))[1:]:
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= wide
        assert 0 <= y <= y + h <= high
    texts = ["".join(text.itertext()) for text in root.iter(f"{svg}text")]
    assert {step.symbol for step in drawn} | {step.about for step in drawn} <= set(texts)


@pytest.mark.parametrize("number", range(6))
def test_every_mechanism_has_latex_whose_braces_close(number: int) -> None:
    written = list(everything())[number].latex()
    plain_braces = re.sub(r"\\[{}]", "", written)
    assert plain_braces.count("{") == plain_braces.count("}")
    assert written.count(r"\begin{tabular}") == written.count(r"\end{tabular}") == written.count(r"\[")
    assert "−" not in written
    for columns, body in re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", written, re.DOTALL):
        assert {len(line.replace(r"\&", "").split("&")) for line in body.splitlines()} == {len(columns)}


def test_a_formula_in_latex_and_in_a_line() -> None:
    walk = {step.symbol: step for step in walked(Attention(ScaledDot()))}
    assert latex(walk["α₂"].mathml) == r"\alpha _{ij}=\frac{e^{e_{ij}}}{\sum _{j}e^{e_{ij}}}"
    assert latex(walk["c₂"].mathml) == r"\mathbf{c}_{i}=\sum _{j}\alpha _{ij}\mathbf{v}_{j}"
    assert plain(walk["e₂"].mathml) == "eᵢⱼ = 0.25·q·k"
    assert latex(position_steps(1, 4)[0].mathml) == r"\omega _{j}=10000^{-\frac{2j}{4}}"


def test_the_parts_of_a_formula_do_not_overlap() -> None:
    (weights,) = (step for step in walked(Attention(ScaledDot())) if step.symbol == "α₂")
    box = boxed(weights.mathml, 15)
    line = [part for part in box.drawn if getattr(part, "y", 1) == 0.0]
    ends = [0.0]
    for part in line:
        assert part.x >= ends[-1] - 0.01
        ends.append(part.x)
    assert box.above > 20  # a fraction stands above and below the line
    assert box.below > 10


def test_text_for_latex_is_text() -> None:
    assert escaped("50% of {a_b} & #1 \\x ~^") == (
        r"50\% of \{a\_b\} \& \#1 \textbackslash{}x \textasciitilde{}\textasciicircum{}"
    )


def test_a_notebook_gets_formulas_and_tables_and_no_markup_of_labels(masked: Steps) -> None:
    shown = masked._repr_html_()
    root = ElementTree.fromstring(shown)
    assert len(list(root.iter("math"))) == len(masked)
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown
    assert {cell.get("dir") for cell in root.iter("td")} == {"ltr"}
    assert ElementTree.fromstring(masked[0]._repr_html_()).find(".//math") is not None


def test_steps_are_saved_by_the_ending_of_the_name(masked: Steps, tmp_path: Path) -> None:
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".tex": b"% Needs", ".txt": b"attention, head 0"}
    for ending, begin in begins.items():
        assert masked.save(tmp_path / f"a{ending}").read_bytes().startswith(begin)
        assert masked[-1].save(tmp_path / f"b{ending}").exists()
    sizes = [struct.unpack(">II", masked.save(tmp_path / "c.png", dpi=dpi).read_bytes()[16:24]) for dpi in (96, 288)]
    assert np.allclose(3 * np.array(sizes[0]), sizes[1], atol=3)
    with pytest.raises(UsageError, match=r"steps are not written as '\.gif'\. Choose \.svg, \.pdf, \.png, \.tex"):
        masked.save(tmp_path / "a.gif")
    with pytest.raises(SetupError, match="cannot write the steps: No such file"):
        masked.save(tmp_path / "none" / "a.svg")


def test_the_viewer_gets_no_more_than_it_knows(masked: Steps) -> None:
    assert set(masked[1].header()) == {"symbol", "mathml", "numbers", "about", "keys"}
    assert Step("a", "<math></math>", 1.0, "One.").labels is None


def test_missing_values_are_reported_in_every_form(tmp_path: Path) -> None:
    attention, x = Attention(ScaledDot()), torch.eye(4)[None, None]
    with record(attention) as recording:
        attention.run(x, x, x)
    result = steps(Trace.of(recording), 0, 0, 2)
    assert result[-1].symbol == "α₂"
    assert str(result).endswith(result.remark)
    assert "hugging_face.record(model, values=True)" in result.remark
    assert "α·v and the context are missing" in result._repr_html_()
    assert "α·v and the context are missing" in result.svg()
    assert "the context are missing" in result.latex()
    for ending in ("svg", "png", "pdf", "tex", "txt"):
        assert result.save(tmp_path / f"steps.{ending}").stat().st_size
    ElementTree.fromstring(result.svg())
