"""The recurrent attention network: its parts, what it says, and what it refuses."""

import re
from typing import Any

import pytest
import torch

from foveate.config import build
from foveate.errors import UsageError
from foveate.nn import RAN, Packing, RANConfig, RANEncoder, RANHead
from foveate.nn.ran_layer import RANLayer
from foveate.nn.ran_window import Windows

SMALL: dict[str, Any] = {"model_dim": 8, "num_heads": 2, "head_dim": 4, "window": 4, "min_window": 2}


def small(**settings: Any) -> RAN:
    return RANConfig(**SMALL, **settings).build().eval()


def test_a_configuration_names_its_settings() -> None:
    config = build(RANConfig, {"model_dim": 8, "window": 4, "causal": True, "windows": "merge_tail", "min_window": 2})
    assert config == RANConfig(model_dim=8, window=4, causal=True, windows="merge_tail", min_window=2)
    with pytest.raises(UsageError, match="windows cannot be"):
        build(RANConfig, {"windows": "tail"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 5}, "head_dim=5 must be even: rotary positions rotate pairs of features"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout is a dropout probability and must be in [0, 1), got 1.0"),
        ({"window": 8, "windows": "merge_tail"}, "min_window=16 is more than window=8"),
        (
            {"streaming": True, "windows": "merge_tail"},
            'streaming does not work with windows="merge_tail": a document in pieces must have the windows '
            "of the whole one. "
            'Choose windows="grid" without published.',
        ),
        (
            {"streaming": True, "published": True},
            "streaming does not work with published: a document in pieces must have the windows of the whole one. "
            'Choose windows="grid" without published.',
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RANConfig(**settings)


def test_it_has_the_published_number_of_weights() -> None:
    """4.99 M for (512, 8, 128). 262,144 + 512 of them compute a first cell that is a vector here."""
    with torch.device("meta"):
        layer = RANLayer(RANConfig())
    assert sum(parameter.numel() for parameter in layer.parameters()) + 512 * 512 + 512 == 4_994_560


def test_windows_go_there_and_back() -> None:
    x, lengths = torch.arange(1.0, 27).view(2, 13, 1), torch.tensor([13, 9])
    cuts: tuple[dict[str, Any], ...] = ({}, {"min_window": 2}, {"min_window": 2, "padded": True})
    for settings in cuts:
        windows = Windows(lengths, 13, window=4, **settings)
        folded = windows.fold(x)
        assert torch.equal(folded.ne(0).squeeze(-1), windows.real)
        assert torch.equal(windows.unfold(folded), torch.where(windows.token[..., None], x, 0.0))


def test_a_short_last_window_joins_the_one_before_by_the_true_length() -> None:
    windows = Windows(torch.tensor([13, 9, 10, 1]), 16, window=4, min_window=2)
    assert windows.real.sum(-1).tolist() == [[4, 4, 5], [4, 5, 0], [4, 4, 2], [1, 0, 0]]
    assert windows.live.sum(-1).tolist() == [3, 2, 3, 1]


def test_published_windows_are_cut_by_the_padded_length_and_all_live() -> None:
    windows = Windows(torch.tensor([13, 9]), 17, window=4, min_window=2, padded=True)
    assert windows.real.sum(-1).tolist() == [[4, 4, 4, 1], [4, 4, 1, 0]]
    assert windows.width == 5
    assert windows.live.all()


def test_only_a_network_that_looks_back_takes_pieces() -> None:
    for settings in ({}, {"published": True, "causal": True}, {"causal": True, "windows": "merge_tail"}):
        network = small(**settings)
        with pytest.raises(ValueError, match="pieces") as refusal:
            network.extend(torch.randn(1, 4, 8), network.start(1))
        assert str(refusal.value) == (
            "This network attends to whole documents and cannot process pieces. "
            'Build it with causal=True or streaming=True, and windows="grid".'
        )


def test_a_document_that_ended_within_a_window_does_not_go_on() -> None:
    network = small(causal=True)
    state = network.extend(torch.randn(2, 8, 8), network.start(2), torch.tensor([8, 5])).state
    assert network.extend(torch.randn(2, 3, 8), state, torch.tensor([3, 0])).state[0].lengths.tolist() == [11, 5]
    with pytest.raises(ValueError, match="continues") as refusal:
        network.extend(torch.randn(2, 4, 8), state)
    assert str(refusal.value) == (
        "A document continues after [8, 5] tokens, but only its last piece may end within a window. "
        "Pass pieces of a multiple of 4 tokens."
    )


def test_a_prefix_needs_causality() -> None:
    with pytest.raises(ValueError, match="prefix") as refusal:
        small()(torch.randn(1, 5, 8), prefix=torch.tensor([2]))
    assert str(refusal.value) == ("`prefix` is for causal networks, but this network sees whole windows. Leave it out.")


def test_a_network_can_begin_with_a_given_cell() -> None:
    network, x, cell = small(), torch.randn(2, 5, 8), torch.randn(2, 8)
    assert not torch.allclose(network(x, cell=cell).document, network(x).document)
    first = network.layers[0]
    assert isinstance(first, RANLayer)
    assert first.initial_cell is not None
    cell = first.initial_cell.detach().expand(2, -1)
    torch.testing.assert_close(network(x, cell=cell).document, network(x).document)


def test_a_layer_without_a_first_cell_asks_for_one() -> None:
    layer = RANLayer(RANConfig(**SMALL), begins=False)
    with pytest.raises(ValueError, match="begins") as refusal:
        layer.start(1)
    assert str(refusal.value) == "This layer begins with the cell of the layer below. Pass cell=."


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"review": False}, {"windows": "merge_tail"}], ids=str)
def test_explained_weights_are_those_of_every_window(settings: dict[str, Any]) -> None:
    network, lengths = small(**settings), torch.tensor([9, 3])
    layers = network.explain(torch.randn(2, 9, 8), lengths)
    assert len(layers) == 2
    joined = "windows" in settings
    for layer in layers:
        size = 1 + (5 if joined else 4)
        assert layer.windows.shape == (2, 2 if joined else 3, 2, size, size)
        torch.testing.assert_close(layer.windows.sum(-1), torch.ones(layer.windows.shape[:-1]))
        assert (layer.windows[0, 0, :, 0] > 0).sum() == 2 * 5
        assert (layer.windows[1, 0, :, :, 4:] == 0).all()
        if "causal" in settings:
            assert (layer.windows[:, :, :, 1:].triu(2) == 0).all()
        if layer.review is None:
            assert "review" in settings
            continue
        assert layer.review.shape == (2, 9, 2 if joined else 3)
        sums = layer.review.sum(-1)
        first = 4 if "causal" in settings else 0
        torch.testing.assert_close(sums[0], torch.where(torch.arange(9) < first, 0.0, 1.0))
        torch.testing.assert_close(sums[1], torch.where(torch.arange(9) < (0 if first else 3), 1.0, 0.0))


def test_documents_without_tokens_cannot_be_explained() -> None:
    with pytest.raises(ValueError, match="no window") as refusal:
        small().explain(torch.randn(2, 0, 8))
    assert str(refusal.value) == "These documents have no token, so there is no window to explain."


def test_an_encoder_takes_tokens_without_padding() -> None:
    encoder, lengths = RANEncoder(RANConfig(**SMALL)).eval(), torch.tensor([9, 2, 5])
    packing, x = Packing(lengths, 9), torch.randn(3, 9, 8)
    expected = packing.pack(encoder.network(x, lengths).tokens)
    torch.testing.assert_close(encoder(packing.pack(x), packing=packing), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_every_dtype_stays_what_it_is(dtype: torch.dtype) -> None:
    network = small(causal=True).to(dtype)
    output = network(torch.randn(2, 9, 8, dtype=dtype), torch.tensor([9, 3]))
    assert {part.dtype for part in (output.tokens, output.document, output.state[1].cells)} == {dtype}
    assert output.tokens.isfinite().all()


def test_a_head_joins_the_highest_of_the_tokens_with_the_document() -> None:
    network, head, lengths = small().double(), RANHead(8, 3, hidden_dim=5).double(), torch.tensor([9, 4, 0])
    output = network(torch.randn(3, 9, 8, dtype=torch.float64), lengths)
    logits = head(output, lengths)
    silu = torch.nn.functional.silu
    highest = [output.tokens[0].amax(0), output.tokens[1, :4].amax(0), output.tokens.new_zeros(8)]
    for row, pooled in enumerate(highest):
        joined = head.pooled(pooled) + head.gate(silu(head.cell(output.document[row])))
        torch.testing.assert_close(logits[row], head.output(silu(head.hidden(joined))))
    torch.testing.assert_close(head(output)[0], logits[0])
    nothing = network(torch.randn(2, 0, 8, dtype=torch.float64))
    assert head(nothing).shape == (2, 3)


def test_a_classifier_of_long_documents_learns_what_stands_far_from_their_end() -> None:
    """One token in the first window of eight says the label: only the cells can carry it to the last one."""
    network, head = RANConfig(**SMALL, dropout=0.0, num_layers=1, causal=True).build(), RANHead(8, 2, hidden_dim=16)
    marks = torch.randn(2, 8)
    optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=1e-2)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        labels, x = torch.randint(2, (32,)), 0.3 * torch.randn(32, 32, 8)
        x[torch.arange(32), torch.randint(4, (32,))] += 2 * marks[labels]
        return x, labels

    def logits(x: torch.Tensor) -> torch.Tensor:
        output = network(x)
        return head(output._replace(tokens=output.tokens[:, -4:]))

    for _ in range(60):
        x, labels = batch()
        loss = torch.nn.functional.cross_entropy(logits(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x, labels = batch()
    assert (logits(x).argmax(-1) == labels).float().mean() >= 0.9


@pytest.mark.parametrize(
    ("x", "lengths", "kind", "says"),
    [
        (torch.randn(2, 5, 8), None, ValueError, "`x` has shape (2, 5, 8), but this network takes `batch length model"),
        (torch.randn(5, 16), None, ValueError, "Without a batch, insert an axis: x[None]."),
        (torch.randn(2, 5, 16), [1, 2, 3], ValueError, "`lengths` are [1, 2, 3], but there are 2 documents of up to 5"),
        (
            torch.randn(2, 5, 16),
            [9, 2],
            ValueError,
            "`lengths` are [9, 2], but there are 2 documents of up to 5 tokens",
        ),
        (
            torch.randn(2, 5, 16),
            torch.tensor([3.0, 2.0]),
            TypeError,
            "`lengths` is a tensor of shape (2,) and float32.",
        ),
    ],
)
def test_documents_of_another_shape_are_refused(
    unchecked: None, x: torch.Tensor, lengths: object, kind: type[Exception], says: str
) -> None:
    network = RANConfig(model_dim=16, num_heads=2, head_dim=4, window=3).build()
    with pytest.raises(kind) as refusal:
        network(x, lengths)
    assert says in str(refusal.value)
