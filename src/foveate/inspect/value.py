"""Observing a pass with its values, whatever the model runs in one piece."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from foveate.inspect.ablation import explained
from foveate.inspect.trace.observation import Observation, observe

LONGEST = 1024
"""Tokens up to which every weight is made once, to compare."""


@torch.inference_mode()
def observed(model: nn.Module, run: Callable[[], Tensor]) -> Observation:
    """What one pass looked at. Up to 1,024 tokens its values are there too.

    Attention that runs in one piece with what surrounds it shows no values; the pass is then made once more without
    such shortcuts, which also tells how far explain is from run.
    """
    with observe(model) as observation:
        ran = run()
    records = list(observation)
    longest = max((max(record.shape[2:]) for record in records), default=0)
    if longest > LONGEST or all(id(record) in observation.values for record in records):
        return observation
    with explained(model), observe(model, check=False) as again:
        slowly = run()
    for record, other in zip(records, again, strict=True):
        if id(other) in again.values:
            observation.values.setdefault(id(record), again.values[id(other)])
    far = float((slowly - ran).abs().max())
    observation.difference = far if observation.difference is None else max(observation.difference, far)
    return observation
