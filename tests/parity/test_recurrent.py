"""Copied weights make our stacks torch's LSTM, GRU and RNN, over padded sentences and to the final states."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from foveate.nn import RecurrentConfig, RecurrentDecoder, RecurrentEncoder

ROUNDING = {"atol": 1e-12, "rtol": 0}
LENGTHS = torch.tensor([3, 7, 1, 5])
KINDS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
INPUT_DIM, HIDDEN_DIM = 4, 6


def torchs(cell: str, layers: int, bidirectional: bool) -> nn.RNNBase:
    return KINDS[cell](
        INPUT_DIM, HIDDEN_DIM, layers, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )


def copy_layer(ours: nn.Module, theirs: nn.RNNBase, layer: int, suffix: str = "") -> None:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ours.rnn.load_state_dict({f"{name}_l0": getattr(theirs, f"{name}_l{layer}{suffix}") for name in names})


def run_packed(theirs: nn.RNNBase, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    outputs, final = theirs(packed)
    return pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0], (
        final if isinstance(final, tuple) else (final,)
    )


@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_recurrent_encoder_is_torchs(cell: str, layers: int, bidirectional: bool) -> None:
    theirs = torchs(cell, layers, bidirectional)
    config = RecurrentConfig(cell=cell, hidden_dim=HIDDEN_DIM, num_layers=layers)
    ours = RecurrentEncoder(config, INPUT_DIM, bidirectional=bidirectional).double()
    for layer in range(layers):
        copy_layer(ours.forwards[layer], theirs, layer)
        if bidirectional:
            copy_layer(ours.backwards[layer], theirs, layer, "_reverse")
    x = torch.randn(4, 9, INPUT_DIM, dtype=torch.float64)  # two columns longer than the longest sentence

    expected, expected_final = run_packed(theirs, x)
    outputs, finals = ours(x, LENGTHS)

    torch.testing.assert_close(outputs, expected, **ROUNDING)
    assert len(finals) == layers
    for part, state in enumerate(expected_final):  # layers · directions, batch, hidden
        directions = state.view(layers, -1, 4, HIDDEN_DIM).transpose(1, 2).flatten(2)
        for layer, final in enumerate(finals):
            torch.testing.assert_close(final[part], directions[layer], **ROUNDING)


@pytest.mark.parametrize("cell", KINDS)
def test_decoder_over_a_whole_sentence_and_step_by_step(cell: str) -> None:
    theirs = torchs(cell, 2, False)
    ours = RecurrentDecoder(RecurrentConfig(cell=cell, hidden_dim=HIDDEN_DIM, num_layers=2), INPUT_DIM).double()
    for layer in range(2):
        copy_layer(ours.layers[layer], theirs, layer)
    x = torch.randn(4, 5, INPUT_DIM, dtype=torch.float64)
    parts = 2 if cell == "lstm" else 1
    begin = tuple(torch.randn(2, 4, HIDDEN_DIM, dtype=torch.float64) for _ in range(parts))
    state = tuple(tuple(part[layer] for part in begin) for layer in range(2))

    expected, _ = theirs(x, begin if cell == "lstm" else begin[0])

    torch.testing.assert_close(ours(x, state), expected, **ROUNDING)
    for time in range(5):
        output, state = ours.step(x[:, time], state)
        torch.testing.assert_close(output, expected[:, time], **ROUNDING)
