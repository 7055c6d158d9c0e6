"""The recurrent models are their papers' equations, written out by hand."""

import pytest
import torch
from torch import Tensor

from foveate.attention import AdditiveConfig, AttentionConfig, Dot, GeneralConfig, LocationAwareConfig, record
from foveate.data.batch import Batch
from foveate.errors import DataError
from foveate.models import BahdanauConfig, FixedContextConfig, LuongConfig
from foveate.storage.checkpoint import restore_model

SOURCE, TARGET = [4, 5, 6, 2], [1, 7, 3, 8, 2]


def one(rows: list[int]) -> Batch:
    return Batch.of([rows])


def spread(model: torch.nn.Module) -> torch.nn.Module:
    """Weights far enough from zero for every term to matter."""
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    return model.double().eval()


@torch.no_grad()
def test_bahdanaus_model_is_its_formula() -> None:
    """s_0 = tanh(W_s ←h_1); e_ij = vᵀ tanh(W s_{i−1} + U h_j); c = Σ α h; s_i = GRU(s_{i−1}, [E y; c]); maxout."""
    config = BahdanauConfig(
        embedding_dim=4,
        hidden_dim=3,
        maxout_dim=5,
        cell="lecture_gru",
        attention=AttentionConfig(score=AdditiveConfig(hidden_dim=6)),
    )
    model = spread(config.build(9, 9))
    x = model.source_embedding(torch.tensor([SOURCE]))
    zero = torch.zeros(1, 3, dtype=torch.float64)
    forwards = model.encoder.forwards[0].rnn(x, zero)
    backwards = model.encoder.backwards[0].rnn(x.flip(1), zero).flip(1)
    h = torch.cat([forwards, backwards], -1)[0]

    score = model.attention.score
    s = torch.tanh(model.bridge(backwards[0, 0]))
    logits = []
    for word in TARGET[:-1]:
        y = model.target_embedding.weight[word]
        energy = torch.tanh(s @ score.query_weight[0] + h @ score.key_weight[0]) @ score.vector[0]
        context = energy.softmax(0) @ h
        deep = model.readout(torch.cat([s, y, context]))
        maxout = torch.maximum(deep[::2], deep[1::2])
        logits.append(model.output(maxout))
        s = model.decoder.rnn.step(torch.cat([y, context])[None], s[None])[0]

    torch.testing.assert_close(model(one(SOURCE), one(TARGET)), torch.stack(logits))


def attentional(model: torch.nn.Module, state: Tensor, memory: Tensor, score: Tensor) -> Tensor:
    context = score.softmax(0) @ memory
    return torch.tanh(model.combine(torch.cat([context, state])))


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("name", ["dot", "general", "concat"])
@torch.no_grad()
def test_luongs_model_is_its_formula(name: str, feeding: bool) -> None:
    """h_t = LSTM(h_{t−1}, [E y_{t−1}; h̃_{t−1}]); a_t = softmax(score(h_t, h̄)); h̃_t = tanh(W_c [c_t; h_t])."""
    scores = {"dot": Dot(), "general": GeneralConfig(), "concat": AdditiveConfig(hidden_dim=5)}
    config = LuongConfig(
        embedding_dim=4, hidden_dim=6, attention=AttentionConfig(score=scores[name]), input_feeding=feeding
    )
    model = spread(config.build(9, 9))
    lstm = model.encoder.forwards[0].rnn
    outputs, (h, c) = lstm(model.source_embedding(torch.tensor([SOURCE])))
    memory, state, fed = outputs[0], (h[0], c[0]), torch.zeros(6, dtype=torch.float64)

    score, logits = model.attention.score, []
    for word in TARGET[:-1]:
        y = model.target_embedding.weight[word]
        inputs = torch.cat([y, fed]) if feeding else y
        state = model.decoder.layers[0].step(inputs[None], state)
        now = state[0][0]
        if name == "dot":
            energy = memory @ now
        elif name == "general":
            energy = memory @ (now @ score.weight[0])
        else:
            energy = torch.tanh(now @ score.query_weight[0] + memory @ score.key_weight[0]) @ score.vector[0]
        fed = attentional(model, now, memory, energy)
        logits.append(model.output(fed))

    torch.testing.assert_close(model(one(SOURCE), one(TARGET)), torch.stack(logits))


@torch.no_grad()
def test_a_fixed_context_is_the_last_state_fed_at_every_step() -> None:
    """C = h_T; s_0 = tanh(W C); s_t = g([E y_{t−1}; C], s_{t−1})."""
    config = FixedContextConfig(embedding_dim=4, hidden_dim=6, bidirectional=False)
    model = spread(config.build(9, 9))
    _, final = model.encoder.forwards[0].rnn(model.source_embedding(torch.tensor([SOURCE])))
    context = final[0, 0]
    state, logits = (torch.tanh(model.bridge(context))[None],), []
    for word in TARGET[:-1]:
        inputs = torch.cat([model.target_embedding.weight[word], context])
        state = model.decoder.layers[0].step(inputs[None], state)
        logits.append(model.output(state[0][0]))
    torch.testing.assert_close(model(one(SOURCE), one(TARGET)), torch.stack(logits))


def test_the_published_models_have_the_papers_sizes() -> None:
    bahdanau = BahdanauConfig.paper()
    assert (bahdanau.embedding_dim, bahdanau.hidden_dim, bahdanau.maxout_dim) == (620, 1000, 500)
    assert (bahdanau.cell, bahdanau.attention.score) == ("lecture_gru", AdditiveConfig(hidden_dim=1000))
    luong = LuongConfig.paper()
    assert (luong.num_layers, luong.hidden_dim, luong.cell, luong.input_feeding) == (4, 1000, "lstm", True)


@pytest.mark.parametrize("beam", [1, 3])
def test_hypotheses_share_one_memory(beam: int) -> None:
    model = BahdanauConfig(embedding_dim=4, hidden_dim=6, maxout_dim=3).build(9, 9)
    state = model.start(Batch.of([SOURCE, [5, 2]]), beam)
    assert state.memory.hidden.shape == (2, 4, 12)
    assert state.layers[0][0].shape == (2 * beam, 6)
    half = model.select(state, torch.arange(beam, 2 * beam))
    assert half.memory.hidden.shape == (1, 4, 12)
    reordered = model.select(state, torch.arange(2 * beam))
    assert reordered.memory.hidden is state.memory.hidden


@pytest.mark.parametrize("feeding", [True, False])
@torch.no_grad()
def test_location_aware_steps_look_at_the_weights_of_the_step_before(feeding: bool) -> None:
    aware = AttentionConfig(score=LocationAwareConfig(hidden_dim=4, channels=2, width=3))
    config = LuongConfig(embedding_dim=4, hidden_dim=6, attention=aware, input_feeding=feeding)
    model = spread(config.build(9, 9))
    with record(model) as recording:
        model(Batch.of([SOURCE, [5, 2]]), Batch.of([TARGET, TARGET]))
    before, weights = [], []
    for one in recording:  # a record for the whole, whose rows are the steps
        before.append(one.at.previous)
        weights.append(one.weights())
    previous, now = torch.cat(before, 2), torch.cat(weights, 2)
    first = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(previous[:, 0, 0], first)
    torch.testing.assert_close(previous[:, :, 1:], now[:, :, :-1])


def test_a_fixed_context_has_no_weight_that_nobody_reads_and_takes_checkpoints_that_do() -> None:
    config = FixedContextConfig(embedding_dim=4, hidden_dim=6, num_layers=2, layer_norm=True)
    model = config.build(9, 9)
    model.loss(one(SOURCE), one(TARGET)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())

    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    older = {**saved, "encoder.after.norms.1.weight": torch.ones(6), "encoder.after.norms.1.bias": torch.zeros(6)}
    again = config.build(9, 9)
    restore_model(again, older, source="an older run")
    assert all(torch.equal(tensor, saved[name]) for name, tensor in again.state_dict().items())
    with pytest.raises(DataError, match=r"encoder\.after\.norms\.2\.bias is unknown"):
        restore_model(again, {**saved, "encoder.after.norms.2.bias": torch.zeros(6)}, source="another run")
