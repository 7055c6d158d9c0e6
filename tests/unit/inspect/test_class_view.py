"""The view of the class tokens of a ViT, against the matrices of its layers."""

import numpy as np
import pytest
import torch

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.image import ImageRows
from foveate.data.label import Labels
from foveate.data.picture import Picture
from foveate.inspect.flow import class_view
from foveate.models import ClassifierConfig, ViTConfig
from foveate.nn import FirstPoolingConfig, MeanPoolingConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.classify.use import RowClassifier

ROWS = ImageRows(patch=4, colour=False, grid=(3, 4))
ENCODER = ViTConfig(block=BlockConfig(model_dim=16, num_heads=2, feedforward_dim=8, norm="pre"), num_layers=3)
PICTURE = Picture("noise", np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))


def classifier(pooling: FirstPoolingConfig | MeanPoolingConfig) -> RowClassifier:
    torch.manual_seed(0)
    model = ClassifierConfig(encoder=ENCODER, pooling=pooling).build(ROWS.input, 2)
    for weight in model.parameters():
        weight.data.add_(0.3 * torch.randn_like(weight))
    return RowClassifier(model, ROWS, Labels(["a", "b"]))


@pytest.mark.parametrize("count", [1, 2])
def test_class_tokens_are_shown_in_the_last_layer_and_through_all(count: int) -> None:
    used = classifier(FirstPoolingConfig(count=count))
    view = class_view(used.trace(PICTURE))
    assert view is not None
    assert view.grid == (3, 4)
    with torch.no_grad(), record(used.model) as recording:
        used.model(Batch.of([used.rows.row(PICTURE)]))
    maps = [one.weights()[0].mean(0) for one in recording.of_kind("self")]
    flow = torch.eye(12 + count)
    for layer in maps:
        flow = (torch.eye(12 + count) + layer) / 2 @ flow
    for token in range(count):
        assert view.target[2 * token].startswith(view.source[token])
        np.testing.assert_allclose(view.weights[2 * token], maps[-1][token].numpy(), atol=1e-3)
        np.testing.assert_allclose(view.weights[2 * token + 1], flow[token].numpy(), atol=1e-3)


def test_a_model_without_class_tokens_has_no_such_view() -> None:
    assert class_view(classifier(MeanPoolingConfig()).trace(PICTURE)) is None
