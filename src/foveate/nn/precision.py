"""The precision in which a trained model computes."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from foveate.errors import DataError, UsageError

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)


def set_precision(model: nn.Module, precision: str) -> None:
    """Let a model with float32 weights compute in this precision from now on.

    bfloat16 rounds the weights. int8 leaves them and computes the products in whole numbers (`foveate.nn.int8`).

    Raises UsageError for another precision and for a model without int8 products, DataError for damaged weights.
    """
    if precision not in PRECISIONS:
        raise UsageError(f"There is no precision {precision!r}. Choose one of {', '.join(PRECISIONS)}.")
    if precision != "int8" and getattr(model, "int8", False):
        model.use_int8(False)  # type: ignore[operator]
    if precision == "bfloat16":
        model.to(torch.bfloat16)
    if precision != "int8":
        return
    use_int8 = getattr(model, "use_int8", None)
    if use_int8 is None:
        kind = type(model).__name__
        raise UsageError(
            f"int8 is for Transformers that translate or continue texts, not for {kind}. Choose float32 or bfloat16."
        )
    try:
        use_int8()
    except ValueError as error:
        raise DataError(f"{error} The training diverged or the file is damaged: use an earlier checkpoint.") from None


def in_bfloat16(x: Tensor) -> bool:
    """Whether a layer of the CPU computes with this input in bfloat16: its type, or that of autocast."""
    if x.device.type != "cpu":
        return False
    return x.dtype is torch.bfloat16 or (
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
    )
