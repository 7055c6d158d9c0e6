"""Observes a pass with its values, also for models that fuse attention with other operations."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from foveate.attention.explanation import explaining
from foveate.inspect.trace.observation import Observation, observe

LONGEST = 1024
"""The number of tokens up to which all weights are computed for comparison."""


@torch.inference_mode()
def observed(model: nn.Module, run: Callable[[], Tensor]) -> Observation:
    """The observation of one pass, with its values for up to 1,024 tokens.

    Attention that is fused with other operations does not expose its values. The pass is then repeated without such
    shortcuts, which also measures the difference between explain and run.
    """
    with observe(model) as observation:
        ran = run()
    records = list(observation)
    longest = max((max(record.shape[2:]) for record in records), default=0)
    if longest > LONGEST or all(id(record) in observation.values for record in records):
        return observation
    with explaining(), observe(model, check=False) as again:
        slowly = run()
    for record, other in zip(records, again, strict=True):
        if id(other) in again.values:
            observation.values.setdefault(id(record), again.values[id(other)])
    observation.note_difference(float((slowly - ran).abs().max()))
    return observation
