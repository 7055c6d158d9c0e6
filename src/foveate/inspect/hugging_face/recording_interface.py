"""The function that the transformers library calls during a recording: it stores queries and keys and calls SDPA."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from foveate.errors import SetupError, UsageError
from foveate.hugging_face.guest_site import kind_of
from foveate.inspect.hugging_face.recorded_site import HuggingFaceRecord
from foveate.inspect.hugging_face.recording import HuggingFaceRecording, active

NAME = "foveate_recorded"
UNKNOWN = {"softcap": "soft-capped scores", "s_aux": "sinks beside the keys"}
"""Arguments of attentions that SDPA does not support, with their meaning."""


def register() -> None:
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise SetupError(
            "Recording models of Hugging Face needs transformers 5 or newer: `pip install 'foveate[hf]'`."
        ) from error
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any
) -> tuple[Tensor, Tensor | None]:
    """The function that the library calls for every attention."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    recording = active.get()
    name = None if recording is None else recording.names.get(id(module))
    if recording is not None and name is not None:
        for keyword, meaning in UNKNOWN.items():
            if keywords.get(keyword) is not None:
                raise UsageError(
                    f"{name} has {meaning}, which neither SDPA nor this recording computes. "
                    "Load the model with attn_implementation='eager' and record given weights instead."
                )
        recording.note(noted(recording, name, module, (query, key, value), attention_mask, keywords))
    answer: tuple[Tensor, Tensor | None] = sdpa_attention_forward(module, query, key, value, attention_mask, **keywords)
    return answer


def noted(
    recording: HuggingFaceRecording,
    name: str,
    module: nn.Module,
    tensors: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    keywords: Mapping[str, Any],
) -> HuggingFaceRecord:
    query, key, value = (tensor.detach() for tensor in tensors)
    scaling = keywords.get("scaling")
    cross = kind_of(name, module) == "cross"
    causal = keywords.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if causal is None else causal) and not cross
    start = 0 if cross else max(key.shape[2] - query.shape[2], 0)
    bias = keywords.get("position_bias")
    return HuggingFaceRecord(
        name=name,
        kind="cross" if cross else "self",
        module=module,
        query=query,
        key=key,
        value=value if recording.values else None,
        scaling=float(query.shape[-1] ** -0.5 if scaling is None else scaling),
        causal=causal and mask is None,
        mask=None if mask is None else mask.detach(),
        bias=None if bias is None else bias.detach(),
        start=start,
    )


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    """Select another attention within the context, in the model and in all parts with their own configuration."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    before = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]
