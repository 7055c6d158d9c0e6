"""Masks of the transformers library, read as rules."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.masking_utils import (
    and_masks,
    causal_mask_function,
    chunked_causal_mask_function,
    create_causal_mask,
    or_masks,
    packed_sequence_mask_function,
    remap_positions_for_packed_sequence,
    sdpa_mask,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from foveate.hugging_face import register
from foveate.hugging_face.mask import Sight, sight

PADDED = torch.tensor([[1] * 7, [0] * 2 + [1] * 5]).bool()
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 2, 2, 2, 2]])
PLACES = torch.tensor([[0, 1, 2, 0, 1, 2, 3], [0, 0, 1, 0, 1, 2, 3]])


def even(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return (query + key) % 2 == 0


RULES = {
    "causal": (causal_mask_function, "causal()"),
    "window": (sliding_window_causal_mask_function(3), "window(left=2, right=0)"),
    "window on both sides": (sliding_window_bidirectional_mask_function(2), "window(left=2, right=2)"),
    "chunks": (chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long)), "block(4) & causal()"),
    "packed": (
        and_masks(
            remap_positions_for_packed_sequence(sliding_window_causal_mask_function(2), PLACES),
            packed_sequence_mask_function(SEGMENTS),
        ),
        "window(left=1, right=0) & same_segment()",
    ),
    "chunks after padding": (chunked_causal_mask_function(4, torch.tensor([0, 2])), "given()"),
    "union": (or_masks(causal_mask_function, even), "given()"),
    "own": (and_masks(causal_mask_function, even), "given()"),
}


@pytest.mark.parametrize(("function", "says"), RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("padding", [None, PADDED], ids=["whole", "padded"])
def test_a_rule_says_what_the_functions_say(function: Any, says: str, padding: Tensor | None) -> None:
    demands = {"batch_size": 2, "q_length": 7, "kv_length": 7, "mask_function": function, "attention_mask": padding}
    mask = sight(exact=sdpa_mask, **demands)
    expected = sdpa_mask(**demands, allow_is_causal_skip=False)
    assert torch.equal(mask.visible(), expected)
    assert str(mask.at.rule) == (says if padding is None else f"{says} & padding()")


@pytest.mark.parametrize(("start", "first"), [(4, 0), (4, 2)])
def test_caches_stand_where_they_stand(start: int, first: int) -> None:
    function = sliding_window_causal_mask_function(4)
    demands = {"batch_size": 2, "q_length": 2, "kv_length": 6 - first, "mask_function": function}
    places = {"q_offset": start, "kv_offset": first}
    mask = sight(exact=sdpa_mask, **demands, **places, attention_mask=PADDED[:, :6])
    expected = sdpa_mask(**demands, **places, attention_mask=PADDED[:, :6], allow_is_causal_skip=False)
    assert torch.equal(mask.visible(), expected)


@pytest.mark.parametrize(
    ("start", "length", "width", "says"),
    [(6, 1, 7, "everything()"), (6, 1, 6, "window(left=5, right=0)"), (0, 7, 7, "causal()"), (3, 4, 9, "causal()")],
)
def test_windows_that_contain_all_keys_have_a_simple_description(
    start: int, length: int, width: int, says: str
) -> None:
    function = sliding_window_causal_mask_function(width)
    mask = sight(exact=sdpa_mask, batch_size=1, q_length=length, kv_length=7, q_offset=start, mask_function=function)
    assert str(mask.at.rule) == says
    assert str(mask.at.rule if mask.at.whole is None else mask.at.whole) == f"window(left={width - 1}, right=0)"
    expected = sdpa_mask(1, length, 7, start, mask_function=function, allow_is_causal_skip=False)
    assert torch.equal(mask.visible(), expected)


def test_a_function_that_only_bears_a_known_name_is_evaluated_for_every_pair() -> None:
    def causal_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key < query

    causal_mask_function.__qualname__ = "causal_mask_function"
    mask = sight(exact=sdpa_mask, batch_size=1, q_length=4, kv_length=4, mask_function=causal_mask_function)
    assert str(mask.at.rule) == "given()"
    assert torch.equal(mask.visible()[0, 0], torch.ones(4, 4).tril(-1).bool())


def test_a_sight_takes_no_memory_and_is_a_mask_to_everybody_else() -> None:
    demands = {"batch_size": 2, "q_length": 10**6, "kv_length": 10**6, "mask_function": causal_mask_function}
    vast = sight(exact=sdpa_mask, **demands)
    assert vast.shape == (2, 1, 10**6, 10**6)
    assert vast.untyped_storage().nbytes() == 1

    small = sight(exact=sdpa_mask, batch_size=2, q_length=3, kv_length=3, mask_function=causal_mask_function)
    assert (small.dtype, small.ndim, len(small), small.device.type) == (torch.bool, 4, 2, "cpu")
    triangle = torch.ones(3, 3).tril().bool()
    for tensor in (
        small & True,
        small[:, :, :, :3],
        small.clone(),
        torch.cat([small, small])[:2],
        small.to(torch.bool),
    ):
        assert type(tensor) is Tensor
        assert torch.equal(tensor, triangle.expand(2, 1, 3, 3))
    assert math.isinf(torch.zeros(3, 3).masked_fill(~small, -math.inf)[0, 0, 0, 1])


def test_the_library_asks_for_it_by_name() -> None:
    config = LlamaConfig(attn_implementation=register())
    mask = create_causal_mask(config, torch.zeros(2, 5, 8), None, None)
    assert isinstance(mask, Sight)
    assert str(mask.at.rule) == "causal()"
    assert mask.at.aligned
