"""The view of the class tokens of a ViT, against the matrices of its layers."""

import numpy as np
import pytest
import torch

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.image import ImageRows
from foveate.data.label import Labels
from foveate.data.picture import Picture
from foveate.errors import UsageError
from foveate.inspect.flow import class_view
from foveate.inspect.trace import Trace, Track, given
from foveate.models import ClassifierConfig, ViTConfig
from foveate.nn import FirstPoolingConfig, MeanPoolingConfig, PoolingConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.classify.use import RowClassifier

ROWS = ImageRows(patch=4, colour=False, grid=(3, 4))
ENCODER = ViTConfig(block=BlockConfig(model_dim=16, num_heads=2, feedforward_dim=8, norm="pre"), num_layers=3)
PICTURE = Picture("noise", np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))


def classifier(pooling: PoolingConfig, encoder: ViTConfig = ENCODER) -> RowClassifier:
    torch.manual_seed(0)
    model = ClassifierConfig(encoder=encoder, pooling=pooling).build(ROWS.input, 2)
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


@pytest.mark.parametrize("count", [1, 2])
def test_a_layer_and_a_head_can_be_chosen(count: int) -> None:
    used = classifier(FirstPoolingConfig(count=count))
    trace = used.trace(PICTURE)
    with torch.no_grad(), record(used.model) as recording:
        used.model(Batch.of([used.rows.row(PICTURE)]))
    maps = [one.weights()[0] for one in recording.of_kind("self")]
    choices = {(1, 0): maps[1][0], (0, None): maps[0].mean(0), (None, 1): maps[2][1]}
    for (site, head), expected in choices.items():
        view = class_view(trace, site=site, head=head)
        assert view is not None
        assert view.source[:count] == tuple(title.split()[0] for title in view.target)
        np.testing.assert_allclose(view.weights, expected[:count].numpy(), atol=1e-3)
    with pytest.raises(UsageError, match="has no head 2: it has 2"):
        class_view(trace, site=0, head=2)


def test_a_trace_that_opens_with_another_attention_shows_class_tokens_on_request_only() -> None:
    trace = classifier(FirstPoolingConfig()).trace(PICTURE)
    cross = given(torch.full((1, 1, 13), 1 / 13), kind="cross", tracks=("target", "source"))
    tracks = {**trace.tracks, "target": Track.of_pieces(["a"])}
    captioned = Trace(tracks=tracks, sites=(*trace.sites, cross))
    assert class_view(captioned) is None
    assert class_view(captioned, site=3) is None
    assert class_view(captioned, site=0) is not None


def test_a_model_without_class_tokens_has_no_such_view() -> None:
    assert class_view(classifier(MeanPoolingConfig()).trace(PICTURE)) is None
