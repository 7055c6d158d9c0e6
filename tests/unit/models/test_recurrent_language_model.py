"""How far back gradients reach: the norms are those of autograd, and fall as the lectures say."""

import pytest
import torch

from foveate.data.batch import Batch
from foveate.models.recurrent_language_model import RecurrentLanguageModelConfig, gradient_by_distance

TEXT = Batch.of([[5, 6, 7, 8, 2, 9, 4, 3], [9, 2, 3, 4, 5, 6, 7, 8]])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lecture_gru"])
def test_norms_are_those_of_a_perturbed_state(cell: str) -> None:
    torch.manual_seed(2)
    model = RecurrentLanguageModelConfig(embedding_dim=4, hidden_dim=5, cell=cell).build(11).double().eval()
    norms = gradient_by_distance(model, TEXT)
    assert len(norms) == 7
    text, distance = Batch.of([TEXT.ids[0].tolist()]), 3

    def loss(*nudge: torch.Tensor) -> torch.Tensor:
        """Of the last prediction, with the state before the last three steps moved."""
        with torch.no_grad():
            layers = model.start(Batch.of([text.ids[0, :4].tolist()])).layers
        layers = (tuple(part + moved for part, moved in zip(layers[0], nudge, strict=True)),)
        for token in text.ids[0, 4:7]:
            hidden, layers = model.decoder.step(model.embedding(token[None]), layers)
        return torch.nn.functional.cross_entropy(model.logits(hidden), text.ids[:, -1])

    parts = 2 if cell == "lstm" else 1
    gradients = torch.autograd.functional.jacobian(loss, tuple(torch.zeros(1, 5).double() for _ in range(parts)))
    torch.testing.assert_close(gradient_by_distance(model, text)[distance], torch.cat(gradients, -1).norm())


def test_a_vanilla_rnn_with_small_weights_forgets_geometrically() -> None:
    model = RecurrentLanguageModelConfig(embedding_dim=4, hidden_dim=16, cell="rnn").build(11)
    with torch.no_grad():
        torch.nn.init.orthogonal_(model.decoder.layers[0].rnn.weight_hh_l0, gain=0.5)
    norms = gradient_by_distance(model, TEXT)
    assert (norms[1:] <= 0.5 * norms[:-1]).all()


def test_prompts_and_training_leave_no_gradients_behind() -> None:
    model = RecurrentLanguageModelConfig(embedding_dim=4, hidden_dim=6, num_layers=2, cell="gru").build(11)
    gradient_by_distance(model, TEXT, layer=0)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_tied_weights_need_equal_widths() -> None:
    with pytest.raises(ValueError, match="embedding_dim = hidden_dim"):
        RecurrentLanguageModelConfig(embedding_dim=4, hidden_dim=6, tied=True)
