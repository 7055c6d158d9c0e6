"""Records models of the transformers library while their own attention runs.

A function of ours replaces the library's attention: it stores queries (after rotation) and keys, and calls the
library's SDPA. Therefore the model keeps its speed, and no n × n matrix is computed. On the first call, the recorded
weights are compared with those of the library's eager attention at each site; the recording is refused if they differ.

    with record(model) as recording:
        model(**tokeniser(text, return_tensors="pt"))
    trace = recording.trace({"source": Track.of_pieces(tokeniser.convert_ids_to_tokens(ids))})
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from foveate.errors import UsageError
from foveate.hugging_face import Guest
from foveate.inspect.hugging_face.eager_check import OUTSIDE, Check, passes_by
from foveate.inspect.hugging_face.recorded_site import HuggingFaceRecord
from foveate.inspect.hugging_face.recording import HuggingFaceRecording, active
from foveate.inspect.hugging_face.recording_interface import NAME, implementation, register

__all__ = ["HuggingFaceRecord", "HuggingFaceRecording", "record"]


@contextmanager
def record(model: nn.Module, *, values: bool = False, check: bool = True) -> Iterator[HuggingFaceRecording]:
    """Record all attentions of a model of the transformers library within the context.

    Raises UsageError for a model whose attention does not use the library's interface or computes something that SDPA
    does not support, and if the recorded weights differ from those of eager attention.
    """
    register()
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if kind in OUTSIDE or not hasattr(model, "set_attn_implementation"):
        raise UsageError(passes_by(kind))
    if any(isinstance(module, Guest) for module in model.modules()):
        raise UsageError(
            "This model's attention runs here (`foveate.hugging_face.attend`), and is recorded as any of ours is: "
            "`with foveate.inspect.observe(model) as recording: …`, then `Trace.of(recording, tracks)`."
        )
    recording = HuggingFaceRecording(model, values)
    recording.names = {id(module): name for name, module in model.named_modules()}
    with implementation(model, NAME):
        hook = model.register_forward_hook(Check(recording, kind, check), with_kwargs=True)
        token = active.set(recording)
        try:
            yield recording
        finally:
            active.reset(token)
            hook.remove()
