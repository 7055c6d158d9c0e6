"""Recurrent layers as the lectures define them. Parity with torch is tests/parity/test_recurrent.py."""

import pytest
import torch
from torch import Tensor, nn

from foveate.nn import LectureGRU, RecurrentConfig, RecurrentDecoder, RecurrentEncoder, RecurrentLayer
from foveate.nn.recurrent_layer import _onednn

LENGTHS = torch.tensor([3, 5, 1])


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 5, 4, dtype=torch.float64)


def by_hand(cell: LectureGRU, x: Tensor, h: Tensor) -> Tensor:
    """u = σ(W_u x + V_u h + b_u); r = σ(W_r x + V_r h + b_r); h' = tanh(W x + V (r ⊙ h) + b); h = (1−u) h + u h'."""
    (w_r, w_u, w), (v_r, v_u, v) = cell.weight_input.chunk(3), cell.weight_hidden.chunk(3)
    b_r, b_u, b = cell.bias.chunk(3)
    states = []
    for here in x:
        reset = 1 / (1 + torch.exp(-(w_r @ here + v_r @ h + b_r)))
        update = 1 / (1 + torch.exp(-(w_u @ here + v_u @ h + b_u)))
        candidate = torch.tanh(w @ here + v @ (reset * h) + b)
        h = (1 - update) * h + update * candidate
        states.append(h)
    return torch.stack(states)


@pytest.fixture
def lecture_gru() -> LectureGRU:
    cell = LectureGRU(4, 6).double()
    nn.init.normal_(cell.bias)
    return cell


def test_the_lectures_gru_is_its_formula(lecture_gru: LectureGRU, x: Tensor) -> None:
    h = torch.randn(3, 6, dtype=torch.float64)
    expected = torch.stack([by_hand(lecture_gru, *pair) for pair in zip(x, h, strict=True)])
    torch.testing.assert_close(lecture_gru(x, h), expected)
    for time in range(5):
        h = lecture_gru.step(x[:, time], h)
        torch.testing.assert_close(h, expected[:, time])


def test_the_lectures_gru_is_not_torchs_even_with_the_update_gate_turned_round(
    lecture_gru: LectureGRU, x: Tensor
) -> None:
    """torch resets after the matrix, h' = tanh(W x + r ⊙ V h), and keeps with z = 1 − u."""
    theirs = nn.GRU(4, 6, batch_first=True, dtype=torch.float64)
    turn = torch.cat([torch.ones(6), -torch.ones(6), torch.ones(6)])  # σ(−a) = 1 − σ(a)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(lecture_gru.weight_input * turn[:, None])
        theirs.weight_hh_l0.copy_(lecture_gru.weight_hidden * turn[:, None])
        theirs.bias_ih_l0.copy_(lecture_gru.bias * turn)
        theirs.bias_hh_l0.zero_()
    zeros = torch.zeros(3, 6, dtype=torch.float64)
    ours, others = lecture_gru(x, zeros), theirs(x)[0]
    torch.testing.assert_close(ours[:, 0], others[:, 0])  # from a zero state there is nothing to reset
    assert (ours[:, 1:] - others[:, 1:]).abs().min(-1).values.max() > 1e-3

    with torch.no_grad():  # and equal where the matrix commutes with the gate: a multiple of the identity
        lecture_gru.weight_hidden[12:] = 0.7 * torch.eye(6)
        theirs.weight_hh_l0.copy_(lecture_gru.weight_hidden * turn[:, None])
    torch.testing.assert_close(lecture_gru(x, zeros), theirs(x)[0])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lecture_gru"])
def test_a_layer_stepped_is_the_layer_run(cell: str, x: Tensor) -> None:
    layer = RecurrentLayer(cell, 4, 6).double()
    outputs, final = layer(x)
    state = layer.initial(x, 3)
    assert len(state) == (2 if cell == "lstm" else 1)
    for time in range(5):
        state = layer.step(x[:, time], state)
        torch.testing.assert_close(state[0], outputs[:, time])
    for one, other in zip(state, final, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lecture_gru"])
def test_both_directions_are_joined_and_each_starts_at_its_own_end(cell: str, x: Tensor) -> None:
    """h_i = [→h_i; ←h_i]"""
    encoder = RecurrentEncoder(RecurrentConfig(cell=cell, hidden_dim=6), 4, bidirectional=True).double()
    outputs, (final,) = encoder(x, LENGTHS)
    assert outputs.shape == (3, 5, 12)
    for row, length in enumerate(LENGTHS.tolist()):
        sentence = x[row : row + 1, :length]
        forwards, _ = encoder.forwards[0](sentence)
        backwards, _ = encoder.backwards[0](sentence.flip(1))
        expected = torch.cat([forwards, backwards.flip(1)], -1)[0]
        torch.testing.assert_close(outputs[row, :length], expected)
        assert (outputs[row, length:] == 0).all()
        torch.testing.assert_close(final[0][row], torch.cat([forwards[0, -1], backwards[0, -1]]))


def test_the_second_layer_reads_the_first_and_adds_it_if_asked(x: Tensor) -> None:
    for skip, norm in ((False, False), (True, False), (False, True), (True, True)):
        config = RecurrentConfig(hidden_dim=6, num_layers=2, skip=skip, layer_norm=norm)
        encoder = RecurrentEncoder(config, 4, bidirectional=False).double()
        for parameter in encoder.parameters():
            nn.init.uniform_(parameter, -1, 1)

        def after(index: int, output: Tensor, encoder: RecurrentEncoder = encoder, norm: bool = norm) -> Tensor:
            return encoder.after.norms[index](output) if norm else output

        first = after(0, encoder.forwards[0](x)[0])  # the widths differ, so there is nothing to skip
        second = encoder.forwards[1](first)[0]
        expected = after(1, second + first if skip else second)
        torch.testing.assert_close(encoder(x, torch.tensor([5, 5, 5]))[0], expected)


def test_equal_widths_skip_from_the_first_layer_on(x: Tensor) -> None:
    encoder = RecurrentEncoder(RecurrentConfig(hidden_dim=4, skip=True), 4, bidirectional=False).double()
    torch.testing.assert_close(encoder(x, torch.tensor([5, 5, 5]))[0], encoder.forwards[0](x)[0] + x)


def test_dropout_falls_between_layers_only(x: Tensor) -> None:
    one = RecurrentEncoder(RecurrentConfig(hidden_dim=6, dropout=0.5), 4, bidirectional=False).double()
    assert torch.equal(one(x, LENGTHS)[0], one(x, LENGTHS)[0])
    two = RecurrentEncoder(RecurrentConfig(hidden_dim=6, num_layers=2, dropout=0.5), 4, bidirectional=False).double()
    assert not torch.equal(two(x, LENGTHS)[0], two(x, LENGTHS)[0])
    two.eval()
    assert torch.equal(two(x, LENGTHS)[0], two(x, LENGTHS)[0])


@pytest.mark.parametrize("cell", ["lstm", "gru", "lecture_gru"])
def test_a_decoder_stepped_is_the_decoder_run(cell: str, x: Tensor) -> None:
    config = RecurrentConfig(cell=cell, hidden_dim=6, num_layers=3, skip=True, layer_norm=True)
    decoder = RecurrentDecoder(config, 4).double()
    parts = 2 if cell == "lstm" else 1
    state = tuple(tuple(torch.randn(3, 6, dtype=torch.float64) for _ in range(parts)) for _ in range(3))
    whole = decoder(x, state)
    for time in range(5):
        output, state = decoder.step(x[:, time], state)
        torch.testing.assert_close(output, whole[:, time])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lecture_gru"])
def test_every_cell_trains_and_steps_under_autocast(cell: str, x: Tensor) -> None:
    layer, x = RecurrentLayer(cell, 4, 6), x.float()
    expected = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = layer(x)
        state = layer.initial(x, 3)
        for here in x.unbind(1):
            state = layer.step(here, state)
    torch.testing.assert_close(outputs.float(), expected, atol=0.02, rtol=0.02)
    torch.testing.assert_close(state[0].float(), expected[:, -1], atol=0.02, rtol=0.02)
    outputs.float().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lecture_gru"])
def test_without_inputs_the_state_stays(cell: str, x: Tensor) -> None:
    layer, config = RecurrentLayer(cell, 4, 6).double(), RecurrentConfig(cell=cell, hidden_dim=6, num_layers=2)
    state = layer(x)[1]
    outputs, final = layer(x[:, :0], None, state)
    assert outputs.shape == (3, 0, 6)
    assert all(map(torch.equal, final, state))
    decoder, encoder = RecurrentDecoder(config, 4).double(), RecurrentEncoder(config, 4, bidirectional=True).double()
    assert decoder(x[:, :0], decoder.initial(x, 3)).shape == (3, 0, 6)
    assert encoder(x[:0], LENGTHS[:0])[0].shape == (0, 5, 12)


def test_the_number_of_weights_does_not_depend_on_the_length() -> None:
    layer = RecurrentLayer("gru", 4, 6)
    assert layer(torch.randn(1, 2, 4))[0].shape == (1, 2, 6)
    assert layer(torch.randn(1, 90, 4))[0].shape == (1, 90, 6)


def test_an_empty_stack_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1") as refusal:
        RecurrentConfig(num_layers=0)
    assert str(refusal.value) == "num_layers must be at least 1, got 0"


def test_threads_that_need_no_onednn_leave_it_on_whoever_ends_first() -> None:
    first, second = _onednn.off(), _onednn.off()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not torch.backends.mkldnn.enabled
    second.__exit__(None, None, None)
    assert torch.backends.mkldnn.enabled


@pytest.mark.parametrize("padded", [True, False])
def test_an_lstm_in_bfloat16_needs_no_products_of_onednn(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch gives it to oneDNN, which refuses bfloat16 where a processor has AVX2 alone."""
    layer, x = RecurrentLayer("lstm", 8, 8).bfloat16(), torch.randn(3, 5, 8).bfloat16()
    lengths = torch.tensor([5, 2, 3]) if padded else None
    monkeypatch.setattr("foveate.machine.multiplies_bfloat16", lambda: False)
    enabled = torch.backends.mkldnn.enabled
    outputs, _ = layer(x, lengths)
    exact, _ = layer.float()(x.float(), lengths)
    real = torch.arange(5) < (lengths[:, None] if lengths is not None else 5)
    torch.testing.assert_close(outputs.float() * real[..., None], exact * real[..., None], atol=0.02, rtol=0.02)
    assert torch.backends.mkldnn.enabled == enabled
