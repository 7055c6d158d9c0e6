"""Builds graphs of ONNX operators, one operator per call."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.errors import SetupError

OPSET, FORMAT = 20, 10
"""The version of the operators, from 2023: old enough for most runtimes, new enough for layer norms and gelu."""
LARGEST = 2_000_000_000
"""The most bytes of weights beside a graph in one file, whose format ends at 2³¹."""
Shape = list[int | str]
"""A shape. Sizes that may differ between calls are names."""


def package() -> Any:
    """The optional package that writes files. Raises SetupError if it is not installed."""
    try:
        import onnx
    except ImportError:
        raise SetupError("The package onnx is not installed. Try: pip install 'foveate[export]'") from None
    return onnx


def weight_bytes(model: Any) -> int:
    """The bytes of the weights in an ONNX model."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


class Graph:
    """A graph whose values are names. Weights become constants; a weight that is used twice is stored once.

    >>> graph = Graph("double")
    >>> graph.output("twice", graph.op("Add", graph.input("x", ["rows"]), "x"), ["rows"])
    >>> [node.op_type for node in graph.model().graph.node]
    ['Add', 'Identity']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._onnx = package()
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._constants: dict[Any, Any] = {}

    def input(self, name: str, shape: Shape, *, integer: bool = False) -> str:
        self._inputs.append(self._described(name, shape, integer))
        return name

    def output(self, name: str, value: str, shape: Shape, *, integer: bool = False) -> None:
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._described(name, shape, integer))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output. An empty name omits an optional input."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        outputs = [f"{kind.lower()}.{len(self._nodes)}.{place}" for place in range(count)]
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def weight(self, tensor: Tensor) -> str:
        """A tensor as a float32 constant."""
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if key not in self._constants:
            array = np.ascontiguousarray(tensor.detach().float().numpy())
            # The tensor stays alive, so that no other tensor can get its address.
            self._constants[key] = (self._onnx.numpy_helper.from_array(array, f"weight.{len(self._constants)}"), tensor)
        return str(self._constants[key][0].name)

    def table(self, tensor: Tensor) -> str:
        """Computed floats as a constant; equal tables are stored once."""
        return self._constant(np.ascontiguousarray(tensor.detach().float().numpy()))

    def number(self, value: float) -> str:
        return self._constant(np.float32(value))

    def whole(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self._constant(np.array(values, np.int64))

    def size(self, value: str, axis: int) -> str:
        """The size of one axis, as a list of one number."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def shaped(self, value: str, *sizes: int | str) -> str:
        """The value in another shape. Sizes may be −1 for the rest, 0 for the former size, or computed."""
        parts = [size if isinstance(size, str) else self.whole(size) for size in sizes]
        return self.op("Reshape", value, self.op("Concat", *parts, axis=0))

    def turned(self, value: str, *order: int) -> str:
        """The value with its axes in another order."""
        return self.op("Transpose", value, perm=list(order))

    def linear(self, x: str, *layers: nn.Linear) -> str:
        """W x + b for rows x; several layers with the same input become one product."""
        weight = layers[0].weight if len(layers) == 1 else torch.cat([layer.weight for layer in layers])
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        assert len(biases) in (0, len(layers)), "one product has a bias for all its outputs or for none"
        return self.product(x, weight, biases[0] if len(biases) == 1 else torch.cat(biases) if biases else None)

    def product(self, x: str, weight: Float[Tensor, "outputs inputs"], bias: Tensor | None = None) -> str:
        biases = [] if bias is None else [self.weight(bias)]
        return self.op("Gemm", x, self.weight(weight), *biases, transB=1)

    def norm(self, x: str, norm: nn.Module) -> str:
        """A layer norm or a root-mean-square norm; other modules, such as `nn.Identity`, return x."""
        if isinstance(norm, nn.RMSNorm):
            epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
            return self.op("Mul", self.rescaled(x, epsilon), self.weight(_gain(norm)))
        if not isinstance(norm, nn.LayerNorm):
            return x
        parts = [self.weight(part) for part in (_gain(norm), norm.bias) if part is not None]
        return self.op("LayerNormalization", x, *parts, axis=-1, epsilon=norm.eps)

    def rescaled(self, x: str, eps: float) -> str:
        """x / √(mean x² + ε), over the last axis."""
        square = self.op("ReduceMean", self.op("Mul", x, x), self.whole(-1), keepdims=1)
        return self.op("Div", x, self.op("Sqrt", self.op("Add", square, self.number(eps))))

    def visible(self, lengths: str, length: str) -> str:
        """Whether positions contain real tokens: [sentences, length], of type Bool."""
        place = self.places(self.whole(0), length)
        return self.op("Less", self.op("Unsqueeze", place, self.whole(0)), self.op("Unsqueeze", lengths, self.whole(1)))

    def hidden(self, visible: str, *axes: int) -> str:
        """0 for visible pairs and a large negative number for others, with additional axes of size 1.

        A position in padding may see nothing at all. With −∞ its output would be NaN, and spread in the next layer.
        """
        bias = self.op("Where", visible, self.number(0.0), self.number(-1e30))
        return self.op("Unsqueeze", bias, self.whole(*axes)) if axes else bias

    def places(self, first: str, end: str) -> str:
        """The whole numbers from `first` to before `end`, which are lists of one number."""
        return self.op("Range", self.op("Squeeze", first), self.op("Squeeze", end), self.single(1))

    def single(self, value: int) -> str:
        """A constant whole number, without axes."""
        return self._constant(np.int64(value))

    def model(self) -> Any:
        """The finished model; checked, unless it has more weights than one file can hold."""
        make = self._onnx.helper
        constants = [tensor for tensor, _ in self._constants.values()]
        graph = make.make_graph(self._nodes, self.name, self._inputs, self._outputs, constants)
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], producer_name="foveate")
        model.ir_version = FORMAT
        if weight_bytes(model) <= LARGEST:
            self._onnx.checker.check_model(model)
        return model

    def _constant(self, array: Any) -> str:
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant.{len(self._constants)}"
            self._constants[key] = (self._onnx.numpy_helper.from_array(np.asarray(array), name), None)
        return str(self._constants[key][0].name)

    def _described(self, name: str, shape: Shape, integer: bool) -> Any:
        kind = self._onnx.TensorProto.INT64 if integer else self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)


def _gain(norm: nn.LayerNorm | nn.RMSNorm) -> Tensor:
    """The weight of a norm; ones if it has no weight."""
    return torch.ones(norm.normalized_shape) if norm.weight is None else norm.weight
