"""A device of its own for tests without a GPU: its numbers lie on the CPU, and it refuses what a GPU refuses.

Tensors of the device `gpu` and of the CPU do not mix, except where CUDA lets them: numbers without axes in elementwise
operations, indices, and copies. Its memory has no address for C++ kernels and for numpy. Its noise is a generator of
its own.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from foveate import native

aten = torch.ops.aten
INDEXED = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)
PACKED = (aten._pack_padded_sequence.default, aten._pack_padded_sequence_backward.default)
"""Operations whose lengths are on the CPU."""
COPIES = (aten.copy_.default, aten._to_copy.default)
noise = torch.Generator()


class MixedDevicesError(RuntimeError):
    """An operation on tensors of two devices."""


class Module(_DummyBackendModule):
    """What `torch.gpu` is."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        noise.manual_seed(seed)


class There(Tensor):
    """A tensor of the device, whose numbers are `inner`."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, requires_grad: bool = False) -> "There":
        kind = {"dtype": inner.dtype, "device": torch.device("gpu", 0), "requires_grad": requires_grad}
        strides = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        there = Tensor._make_wrapper_subclass(cls, inner.shape, **strides, **kind)
        there.inner = inner
        return there

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return performed(operation, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def tolist(self) -> Any:
        return self.inner.tolist()

    def untyped_storage(self) -> Any:
        return self.inner.untyped_storage()

    def __format__(self, form: str) -> str:
        return format(self.inner, form)

    def __repr__(self, **options: Any) -> str:
        return f"There({self.inner!r})"


class Device(TorchDispatchMode):
    """Makes tensors of the device where they are asked for."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return performed(operation, args, kwargs or {})


def performed(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    there = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, There)}
    device = kwargs.get("device")
    kept = None if device is None else torch.device(device).type == "gpu"
    if there and operation not in COPIES:
        _require_one_device(operation, tensors)
    if kept:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner_args, inner_kwargs = tree_map_only(There, lambda tensor: tensor.inner, (args, kwargs))
    answers_there = bool(there) if kept is None else kept
    if operation is aten.copy_.default:
        answers_there = isinstance(args[0], There)
    with _own_noise() if answers_there and torch.Tag.nondeterministic_seeded in operation.tags else _nothing():
        result = OWN.get(operation, operation)(*inner_args, **inner_kwargs)
    if torch.Tag.inplace_view in operation.tags and there:
        with no_dispatch():
            operation(*args, **kwargs)  # gives the tensor its new shape
    if not answers_there:
        return result
    if operation is PACKED[0]:
        return There(result[0]), result[1]
    return tree_map_only(Tensor, lambda one: there.get(id(one)) if id(one) in there else There(one), result)


# The cells of recurrent layers, which torch has for GPUs alone.


def _gru(x: Tensor, h: Tensor, before: Tensor, x_bias: Any = None, h_bias: Any = None) -> tuple[Tensor, Tensor]:
    x, h = x if x_bias is None else x + x_bias, h if h_bias is None else h + h_bias
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return n + z * (before - n), torch.cat([r, z, n, before, hn], 1)


def _gru_backward(grad: Tensor, kept: Tensor, has_bias: bool) -> tuple[Any, ...]:
    r, z, n, before, hn = kept.chunk(5, 1)
    to_n = grad * (1 - z) * (1 - n * n)
    to_z, to_r = grad * (before - n) * z * (1 - z), to_n * hn * r * (1 - r)
    to_x, to_h = torch.cat([to_r, to_z, to_n], 1), torch.cat([to_r, to_z, to_n * r], 1)
    return to_x, to_h, grad * z, *((to_x.sum(0), to_h.sum(0)) if has_bias else (None, None))


def _lstm(x: Tensor, h: Tensor, cell: Tensor, x_bias: Any = None, h_bias: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    gates = x + h if x_bias is None else x + h + x_bias + h_bias
    i, f, g, o = gates.chunk(4, 1)
    kept = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1)
    i, f, g, o = kept.chunk(4, 1)
    after = f * cell + i * g
    return o * after.tanh(), after, kept


def _lstm_backward(to_h: Any, to_c: Any, cell: Tensor, after: Tensor, kept: Tensor, has_bias: bool) -> tuple[Any, ...]:
    i, f, g, o = kept.chunk(4, 1)
    top, zero = after.tanh(), torch.zeros_like(after)
    to_h, to_c = zero if to_h is None else to_h, zero if to_c is None else to_c
    to_c = to_c + to_h * o * (1 - top * top)
    parts = to_c * g * i * (1 - i), to_c * cell * f * (1 - f), to_c * i * (1 - g * g), to_h * top * o * (1 - o)
    to_gates = torch.cat(parts, 1)
    return to_gates, to_c * f, to_gates.sum(0) if has_bias else None


OWN = {
    aten._thnn_fused_gru_cell.default: _gru,
    aten._thnn_fused_gru_cell_backward.default: _gru_backward,
    aten._thnn_fused_lstm_cell.default: _lstm,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_backward,
}


def _require_one_device(operation: Any, tensors: list[Tensor]) -> None:
    for tensor in tensors:
        scalar = not tensor.ndim and torch.Tag.pointwise in operation.tags
        if not isinstance(tensor, There) and not scalar and operation not in INDEXED + PACKED:
            shapes = [(type(each).__name__, tuple(each.shape)) for each in tensors]
            raise MixedDevicesError(f"{operation} mixes tensors of the CPU with those of the GPU: {shapes}")


_nothing = contextlib.nullcontext


@contextlib.contextmanager
def _own_noise() -> Iterator[None]:
    before = torch.default_generator.get_state()
    torch.default_generator.set_state(noise.get_state())
    try:
        yield
    finally:
        noise.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(before)


def _address(tensor: Tensor | None) -> Any:
    if isinstance(tensor, There):
        raise MixedDevicesError("a C++ kernel of the CPU was given a tensor of the GPU")
    return _own_address(tensor)


def _array(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    if isinstance(self, There):
        raise MixedDevicesError("numpy was given a tensor of the GPU")
    return _own_numpy(self, *args, **kwargs)


_own_address, _own_numpy = native.address, Tensor.numpy


@contextlib.contextmanager
def other_device() -> Iterator[torch.device]:
    """Within this context tensors can be on the device, which it returns. Once a process."""
    if not hasattr(torch, "gpu"):
        _setup_privateuseone_for_python_backend("gpu", Module())
    torch.__future__.set_swap_module_params_on_conversion(True)
    with Device(), mock.patch.object(native, "address", _address), mock.patch.object(Tensor, "numpy", _array):
        yield torch.device("gpu", 0)
