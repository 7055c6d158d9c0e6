"""What a plan says of each attention is what runs: call by call, at the sizes that are passed."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from foveate.attention import Attention, AttentionConfig, GeneralConfig, LocationAwareConfig
from foveate.attention.position import traced
from foveate.models import BahdanauConfig, LuongConfig
from foveate.models.transformer import TransformerConfig
from foveate.nn import BlockConfig, RANConfig
from foveate.tasks import TASKS
from foveate.tasks.run_plan import Costs, plan
from foveate.tasks.translate.task import TranslateConfig

BAHDANAU = BahdanauConfig(embedding_dim=16, hidden_dim=16, maxout_dim=16)
LUONG = LuongConfig(embedding_dim=16, hidden_dim=16, attention=AttentionConfig(score=GeneralConfig()))


def planned(model: Any, *, source: int = 6, bfloat16: bool = False) -> Costs:
    """Of four pairs with five words to predict."""
    config = TranslateConfig(model=model)
    config = replace(config, data=replace(config.data, max_tokens=4 * (source + 5)))
    return plan(TASKS["translate"].side.probe(config, (source, 5), 20), bfloat16=bfloat16)


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (BAHDANAU, [((4, 1, 1, 6), 5)]),
        (LUONG, [((4, 1, 1, 6), 5)]),
        (replace(LUONG, input_feeding=False), [((4, 1, 5, 6), 1)]),
    ],
    ids=["Bahdanau", "Luong with input feeding", "Luong without"],
)
@pytest.mark.parametrize("bfloat16", [False, True], ids=["float32", "bfloat16"])
def test_the_calls_of_a_plan_are_those_of_a_step_of_training(
    model: Any, shapes: list[Any], bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: Counter[tuple[Any, ...]] = Counter()
    run = Attention._choose

    def spied(self: Attention, query: Any, key: Any, at: Any, **how: Any) -> Any:
        choice = run(self, query, key, at, **how)
        if how["training"] and not traced():  # as while operations are counted
            chosen[(*query.shape[:3], key.shape[2], query.dtype, choice.path.name)] += 1
        return choice

    with monkeypatch.context() as patch:
        patch.setattr(Attention, "_choose", spied)
        costs = planned(model, bfloat16=bfloat16)
    assert [(site.shape, site.calls) for site in costs.sites] == shapes
    (site,) = costs.sites
    assert {(kind[1:4], kind[-1]) for kind in chosen} == {(site.shape[1:], site.plan.chosen)}
    question = {site.shape[0]: 1}  # by the plan itself
    by_rows = {site.shape[0] - less: site.calls for less in (1, 2, 3)}  # steps of other sizes
    assert {kind[0]: times for kind, times in chosen.items()} == question | by_rows


def test_a_plan_distinguishes_steps_and_queries() -> None:
    assert "1 head × 5 × (1 × 6)\n  → " in str(planned(BAHDANAU))
    assert "1 head × 5 × 6\n  → " in str(planned(replace(LUONG, input_feeding=False)))


def test_a_decoder_that_hands_its_weights_on_takes_no_path() -> None:
    costs = planned(replace(BAHDANAU, attention=AttentionConfig(score=LocationAwareConfig(channels=2, width=3))))
    message = str(costs)
    assert message.endswith("1 head × 5 × (1 × 6)\n  → all weights are made: each call hands them on to the next one")


def test_the_windows_of_a_long_document_are_one_line() -> None:
    block = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=16)
    encoder = RANConfig(model_dim=16, num_heads=2, head_dim=8, window=3, num_layers=1)
    costs = planned(TransformerConfig(block=block, encoder=encoder, decoder_layers=1), source=12)
    cells = [site for site in costs.sites if site.name.endswith("cell_attention")]
    assert [(site.shape[2:], site.calls) for site in cells] == [((1, 4), 4)]
    assert str(costs).count("cell_attention") == 1
