"""Runs an exported model in ONNX Runtime, as a stepper for all decoders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.data.batch import Batch
from foveate.errors import SetupError
from foveate.models.seq2seq import selected_sentences

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class OnnxState:
    """The state of a decoder between two words: values of sentences, and values of rows."""

    memory: Values
    rows: Values
    beam: int
    time: int


class OnnxEngine:
    """Two graphs with matching names: outputs `memory.…` and `state.…` of the encoder are inputs of the step, and
    outputs `new.state.…` of a step are inputs of the next one.
    """

    def __init__(self, encoder: bytes, step: bytes, max_length: int | None) -> None:
        """Raises SetupError if ONNX Runtime is not installed."""
        self.max_length = max_length
        self._encoder, self._step = _session(encoder), _session(step)
        self._wanted = [output.name for output in self._step.get_outputs()]
        self._takes = {each.name for each in self._step.get_inputs()}

    def start(self, source: Batch, beam: int = 1) -> OnnxState:
        """Read the sources. Rows are `sentence · beam + hypothesis`."""
        lengths = source.lengths.long().numpy()
        names = [output.name for output in self._encoder.get_outputs()]
        outputs = dict(
            zip(names, self._encoder.run(names, {"source": source.ids.numpy(), "lengths": lengths}), strict=True)
        )
        rows = {name: np.repeat(value, beam, axis=0) for name, value in outputs.items() if name.startswith("state.")}
        memory = {name: value for name, value in outputs.items() if not name.startswith("state.")}
        return OnnxState({**memory, "lengths": lengths}, rows, beam, 0)

    def step(self, state: OnnxState, token: Int[Tensor, " rows"]) -> tuple[OnnxState, Float[Tensor, "rows vocab"]]:
        """The logits of the token after `token` in every row."""
        inputs = {**state.memory, **state.rows, "token": token.contiguous().numpy(), "time": np.int64(state.time)}
        inputs = {name: np.asarray(value) for name, value in inputs.items() if name in self._takes}
        outputs = dict(zip(self._wanted, self._step.run(self._wanted, inputs), strict=True))
        logits = torch.from_numpy(outputs.pop("logits"))
        rows = {name.removeprefix("new."): value for name, value in outputs.items()}
        return replace(state, rows=rows, time=state.time + 1), logits

    def select(self, state: OnnxState, rows: Int[Tensor, " new_rows"]) -> OnnxState:
        """The state of the selected rows, like `Stepper.select`."""
        sentences, memory = selected_sentences(rows, state.beam, len(state.memory["lengths"])), state.memory
        if sentences is not None:
            memory = {name: value[sentences.numpy()] for name, value in memory.items()}
        return replace(state, memory=memory, rows={name: value[rows.numpy()] for name, value in state.rows.items()})


def _session(graph: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise SetupError("ONNX Runtime is not installed. Try: pip install 'foveate[export]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # only errors
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
