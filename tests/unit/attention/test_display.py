"""What prints and what a notebook shows of explanations and recordings: sizes and small maps."""

import re
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from foveate.attention import Attention, causal, record
from foveate.attention.record import Recording
from foveate.inspect import observe


@pytest.fixture
def recording() -> Recording:
    model = nn.ModuleDict({"encoder": Attention(visibility=causal()), "decoder": Attention(kind="cross")})
    with record(model) as recording:
        x = torch.randn(2, 3, 5, 4)
        model["encoder"].run(x, x, x)
        model["decoder"].run(x[:, :, :2], x, x)
    return recording


def test_an_explanation_prints_its_sizes_and_the_visible_share() -> None:
    x = torch.randn(1, 2, 3, 4)
    explanation = Attention(visibility=causal()).explain(x, x, x)
    assert repr(explanation) == (
        "<Explanation: 1 example, 2 heads, 3 queries, 3 keys; exact weights, 66.7 % of the pairs visible; "
        "context (1, 2, 3, 4)>"
    )
    assert "1 weight not a number" in repr(_with_nan(explanation))


def _with_nan(result: object) -> object:
    result.weights[0, 0, 0, 0] = torch.nan  # type: ignore[attr-defined]
    return result


def test_a_notebook_shows_the_maps_of_an_explanation_with_hidden_pairs_in_grey() -> None:
    x = torch.randn(1, 2, 3, 4)
    explanation = Attention(visibility=causal()).explain(x, x, x)
    shown = _with_nan(explanation)._repr_html_()  # type: ignore[attr-defined]
    assert [len(re.findall(f"#{colour}", shown)) for colour in ("cfcbc3", "b3127a")] == [2 * 3, 1]
    assert shown.count("<svg") == 2
    ElementTree.fromstring(f"<div>{shown}</div>")
    assert "<svg" not in Attention().explain(long := torch.randn(1, 1, 60, 4), long, long)._repr_html_()
    many = Attention().explain(wide := torch.randn(1, 11, 3, 4), wide, wide)._repr_html_()
    assert (many.count("<svg"), "and 3 more heads" in many) == (8, True)
    empty = torch.zeros(0, 1, 3, 4)
    assert "0 examples" in Attention().explain(empty, empty, empty)._repr_html_()


@pytest.mark.filterwarnings("error")
def test_an_explanation_that_can_be_trained_through_is_shown_without_a_warning() -> None:
    """torch warns once of a number that is read from a tensor with a gradient."""
    x = torch.randn(1, 2, 3, 4, requires_grad=True)
    torch.set_warn_always(True)
    try:
        shown = Attention().explain(x, x, x)._repr_html_()
    finally:
        torch.set_warn_always(False)
    assert shown.count("<svg") == 2


def test_a_recording_lists_its_sites_with_heads_and_sizes(recording: Recording) -> None:
    assert repr(recording).split("\n") == [
        "<Recording of 2 attentions",
        "    encoder, self, 2 examples, 3 heads, 5 queries, 5 keys, ScaledDot and Softmax over causal()",
        "    decoder, cross, 2 examples, 3 heads, 2 queries, 5 keys, ScaledDot and Softmax over everything()>",
    ]
    assert repr(recording["decoder"]).startswith("<AttentionRecord decoder, cross, 2 examples")
    table = ElementTree.fromstring(recording._repr_html_())
    assert [cell.text for cell in table.iter("td")][::4] == ["encoder", "decoder"]


def test_a_long_recording_is_cut_and_the_rest_is_counted(recording: Recording) -> None:
    recording.records *= 20
    assert repr(recording).split("\n")[-1] == "    and 16 more>"


def test_an_empty_recording_prints() -> None:
    with record(nn.Linear(2, 2)) as recording:
        pass
    assert repr(recording) == "<Recording of 0 attentions>"


def test_a_record_shows_its_maps_while_its_weights_can_be_computed(recording: Recording) -> None:
    shown = recording["encoder"]._repr_html_()
    assert shown.count("<svg") == 3
    assert shown.count("#cfcbc3") == 3 * 10
    with record(model := nn.ModuleDict({"a": Attention()}), gradient=True) as taught:
        x = torch.randn(1, 1, 3, 4, requires_grad=True)
        model["a"].run(x, x, x)
    assert "<svg" not in taught["a"]._repr_html_()


def test_an_observation_prints_as_its_recording() -> None:
    with observe(model := nn.ModuleDict({"a": Attention()})) as recording, torch.no_grad():
        x = torch.randn(1, 1, 3, 4)
        model["a"].run(x, x, x)
    assert repr(recording).startswith("<Observation: <Recording of 1 attention\n    a, self")
    assert "<table>" in recording._repr_html_()


def test_ipython_shows_html(recording: Recording) -> None:
    """By the rule of its formatters: a method with the name, called on the object and not on its class."""
    x = torch.randn(1, 1, 3, 4)
    for thing in (recording, recording["encoder"], Attention().explain(x, x, x)):
        method = getattr(thing, "_repr_html_", None)
        assert callable(method)
        assert isinstance(method(), str)
        assert len(repr(thing)) < 500
