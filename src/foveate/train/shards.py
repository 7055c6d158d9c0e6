"""The weights, gradients and moments of a run, divided among its processes by torch's FSDP2.

A block's weights are gathered before it computes, and given up after; gradients are summed to the process that has the
part. Reference: Zhao et al. 2023, "PyTorch FSDP"; Rajbhandari et al. 2020, "ZeRO", section 5.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from foveate.errors import DataError, UsageError
from foveate.models.llama import LlamaBlock
from foveate.nn import DecoderBlock, EncoderBlock
from foveate.storage.checkpoint import MODEL, OPTIMISER, Checkpoint, Checkpoints, copy_tensors
from foveate.storage.draft import disk_errors, flush
from foveate.storage.manifest import file_digest
from foveate.storage.portion import Portion, TensorFiles, portion_name, write_portions
from foveate.train.average import average
from foveate.train.optimiser import optimiser_tensors, restore_optimiser
from foveate.train.reduction import Reduction, Summation
from foveate.train.replica import Replica
from foveate.train.world import World

Sharding = Literal["moments", "full"]
UNITS = (EncoderBlock, DecoderBlock, LlamaBlock)
"""Blocks that training enters by `forward` alone, once for each batch, whose weights are gathered one after the other.
Those of the rest of a model are gathered together."""
ENTRANCES = ("forward", "loss", "encode", "hidden", "logits", "pooled", "squared_weights")
"""Methods through which tasks call models in training."""


@dataclass(frozen=True)
class Place:
    """This process's rows of a tensor: from `first` to before `last`, of a whole of that shape."""

    first: int
    last: int
    shape: torch.Size

    def portion(self, rows: Tensor) -> Portion:
        return Portion(rows, self.first, self.shape)


class Shards(Replica):
    """A model divided among the processes: each has some rows of every tensor.

    `full` gathers the weights of one block after the other, and sums the gradients of each batch. `moments` gathers all
    weights for an update, and keeps whole gradients until its last batch.

    The optimiser sees this process's rows as parameters of their own.
    """

    def __init__(self, model: nn.Module, world: World, sharding: Sharding) -> None:
        super().__init__(model, world)
        self._share()
        self.sharding = sharding
        scalars = {parameter for parameter in model.parameters() if not parameter.ndim}
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        # Autocast makes products in bfloat16, as without FSDP; weights travel and gradients are summed in float32.
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
        mesh = init_device_mesh(next(model.parameters()).device.type, (world.size,))
        shard = functools.partial(fully_shard, mesh=mesh, ignored_params=scalars, mp_policy=policy)
        self._blocks = [module for module in model.modules() if type(module) in UNITS]
        for block in self._blocks:
            shard(block, reshard_after_forward=sharding == "full")
        hooks = [{**model._forward_pre_hooks}, {**model._forward_hooks}]
        shard(model, reshard_after_forward=False)
        self._enter(*hooks)
        for part in self._parts:
            part.set_force_sum_reduction_for_comms(True)
            part.set_gradient_divide_factor(1.0)
            part.set_custom_all_gather(cast(Any, _Gather(world)))
            part.set_custom_reduce_scatter(cast(Any, _Scatter(world)))
        self._root.set_reduce_scatter_unused_params(True)
        self.scalars = [name for name, shape in shapes.items() if not shape]
        self._sharded = dict(model.named_parameters())
        self._places = {name: _place(self._sharded[name], shape) for name, shape in shapes.items()}
        self._rows = {name: nn.Parameter(_local(each), each.requires_grad) for name, each in self._sharded.items()}
        self.counts = dict.fromkeys(self._rows, 0)
        with self.gathered():
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(functools.partial(self._count, name))

    @property
    def _root(self) -> FSDPModule:
        return cast(FSDPModule, self.model)

    @property
    def _parts(self) -> list[FSDPModule]:
        return [cast(FSDPModule, module) for module in (*self._blocks, self.model)]

    def named(self) -> list[tuple[str, nn.Parameter]]:
        return [(name, rows) for name, rows in self._rows.items() if rows.requires_grad]

    def summation(self, parameters: Sequence[nn.Parameter], reduction: Reduction, accumulate: int) -> Summation:
        return _ShardedSummation(parameters, self)

    def _gather(self) -> None:
        """Gives each process whole weights, until they are given up."""
        for part in self._parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        for parameter in self.model.parameters():
            increment_version(parameter)  # which FSDP does not: state that was prepared from older weights is invalid

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        self._gather()
        yield
        for part in self._parts:
            part.reshard()
        for block in self._blocks:
            cast(FSDPModule, block).set_reshard_after_forward(self.sharding == "full", recurse=False)

    def restore(self, checkpoint: Checkpoint, optimiser: torch.optim.Optimizer) -> None:
        """Nothing: all processes read their rows in `receive`."""

    def receive(self, checkpoint: Checkpoint | None, optimiser: torch.optim.Optimizer) -> None:
        if checkpoint is None:
            return

        def read(rank: int) -> None:
            self._read([checkpoint.path / MODEL], checkpoint.path)
            files = TensorFiles(checkpoint.path / OPTIMISER)
            moments = {name: self._moment(files, name) for name in files}
            restore_optimiser(optimiser, moments, source=checkpoint.path)

        self.world.each(read, self.world.size, during="reading the checkpoint")

    def load(self, paths: Sequence[Path], source: str) -> None:
        self.world.each(lambda rank: self._read(paths, source), self.world.size, during="reading weights")

    def save(
        self,
        checkpoints: Checkpoints,
        step: int,
        optimiser: torch.optim.Optimizer,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        digests: dict[str, str] = {}
        weights, moments = self._portions(), self._moments(optimiser)
        size = sum(portion.whole.numel() * portion.rows.itemsize for portion in (*weights.values(), *moments.values()))

        def write(rank: int) -> dict[str, str]:
            folder = checkpoints.folder / draft
            paths = {
                folder / portion_name(name, rank, self.world.size): portions
                for name, portions in ((MODEL, weights), (OPTIMISER, moments))
            }
            with disk_errors(checkpoints.path(step), size):
                for path, portions in paths.items():
                    write_portions(path, portions)
                    flush(path)
            return {path.name: file_digest(path) for path in paths}

        with contextlib.ExitStack() as stack:
            draft = self.world.once(lambda: stack.enter_context(checkpoints.draft(step, size, digests)).name)
            for names in self.world.each(write, self.world.size, during="saving a checkpoint"):
                digests |= names
            self.world.once(lambda: checkpoints.write_state(draft, step, state()))
            self.world.once(stack.close, during="saving a checkpoint")

    def whole(self) -> Mapping[str, Tensor]:
        whole: dict[str, Tensor] = {}
        for name, tensor in self._sharded.items():
            with self.world.meeting():
                gathered = _whole(tensor.detach())
            if self.world.is_first:
                whole[name] = gathered.cpu()
        return whole | self._buffers()

    def release(self) -> None:
        self._gather()

    def take_gradients(self) -> list[Tensor]:
        """Gives the optimiser's parameters the sums of the gradients that FSDP has left; returns those."""
        counts = self.world.sum(torch.tensor(list(self.counts.values()))).tolist()
        for (name, rows), count in zip(self._rows.items(), counts, strict=True):
            sharded, self.counts[name] = self._sharded[name], 0
            rows.grad = None
            if count and name in self.scalars:
                rows.grad = self.world.sum(torch.zeros_like(rows) if sharded.grad is None else sharded.grad)
            elif count and sharded.grad is not None:
                rows.grad = _local(sharded.grad)
            sharded.grad = None
        return [rows.grad for rows in self._rows.values() if rows.grad is not None]

    def norm(self) -> float:
        """The Euclidean norm of the gradient over all processes."""
        counted = [
            rows.grad
            for name, rows in self._rows.items()
            if rows.grad is not None and (self.world.is_first or name not in self.scalars)
        ]
        squares = torch.zeros(1, dtype=torch.float64)
        if counted:
            squares += torch.stack(torch._foreach_norm(counted)).double().square().sum().cpu()
        return float(self.world.sum(squares).sqrt())

    def expect(self, last: bool) -> None:
        """Prepares the next backward pass: whether it is the last one of an update."""
        if self.sharding == "moments":
            self._root.set_requires_gradient_sync(last)
            self._root.set_reshard_after_backward(last)

    def _count(self, name: str, parameter: Tensor) -> None:
        self.counts[name] += 1

    def _enter(self, *own_hooks: Mapping[int, Any]) -> None:
        """Makes FSDP gather the weights of the model for each of its entrances, once for those inside of others.

        FSDP's hooks of `forward`, which the model did not have before, would give the weights up inside of `loss`.
        """
        for hooks, own in zip((self.model._forward_pre_hooks, self.model._forward_hooks), own_hooks, strict=True):
            for number in hooks.keys() - own.keys():
                del hooks[number]
        depth = 0
        for name in ENTRANCES:
            inner = getattr(self.model, name, None)
            if not callable(inner):
                continue
            register_fsdp_forward_method(self.model, name)
            outer = getattr(self.model, name)

            def entered(
                *arguments: Any, inner: Callable[..., Any] = inner, outer: Callable[..., Any] = outer, **named: Any
            ) -> Any:
                nonlocal depth
                depth += 1
                try:
                    return (outer if depth == 1 else inner)(*arguments, **named)
                finally:
                    depth -= 1

            setattr(self.model, name, functools.wraps(inner)(entered))
        if hasattr(self.model, "under"):
            self.model.under = _refuse_views  # type: ignore[assignment]  # which would enter this model, not the view

    def _buffers(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in _persistent(self.model) if name not in self._places}

    def _portions(self) -> dict[str, Portion]:
        """This process's rows of the weights; buffers and scalars in the first process alone."""
        own = {
            name: self._places[name].portion(rows.detach())
            for name, rows in self._rows.items()
            if self.world.is_first or name not in self.scalars
        }
        return own | ({k: Portion.all_of(v) for k, v in self._buffers().items()} if self.world.is_first else {})

    def _moments(self, optimiser: torch.optim.Optimizer) -> dict[str, Portion]:
        moments = {}
        for key, tensor in optimiser_tensors(optimiser).items():
            place = self._places[key.rpartition("/")[0]]
            if tensor.ndim:
                moments[key] = place.portion(tensor)
            elif self.world.is_first:
                moments[key] = Portion.all_of(tensor)
        return moments

    def _moment(self, files: TensorFiles, key: str) -> Tensor:
        place = self._places.get(key.rpartition("/")[0])
        return _rows_of(files, key, place)

    def _read(self, paths: Sequence[Path], source: Path | str) -> None:
        files = map(TensorFiles, paths)
        own = {**{name: rows.data for name, rows in self._rows.items()}, **self._buffers()}
        tensors = average({name: _rows_of(each, name, self._places.get(name)) for name in each} for each in files)
        copy_tensors(own, tensors, retired=getattr(self.model, "retired", ()), source=source)


class _ShardedSummation(Summation):
    """The sum as FSDP makes it: of the rows that this process has."""

    in_step = True

    def __init__(self, parameters: Sequence[nn.Parameter], shards: Shards) -> None:
        super().__init__(parameters, shards.world)
        self.shards = shards

    def begin(self, last: bool) -> None:
        self.shards.expect(last)

    def finish(self) -> list[Tensor]:
        return self.shards.take_gradients()

    def norm(self, gradients: Sequence[Tensor]) -> float:
        return self.shards.norm()


class _Gather:
    """FSDP's collection of a block's weights."""

    def __init__(self, world: World) -> None:
        self.world = world

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> Any:
        with self.world.meeting():
            return dist.all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)


class _Scatter(_Gather):
    """FSDP's sum of gradients; each process receives its own rows."""

    def __call__(  # type: ignore[override]
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> Any:
        with self.world.meeting():
            return dist.reduce_scatter_single(output_tensor, input_tensor, op=op, group=group, async_op=async_op)


def _refuse_views(rule: object) -> NoReturn:
    raise UsageError(
        f"A model in parts cannot be trained under other visibilities, such as {rule}. Choose train.sharding = "
        '"replicate", or leave the views out.'
    )


def _local(tensor: Tensor) -> Tensor:
    """This process's rows, in the same memory."""
    return cast(DTensor, tensor.detach()).to_local() if isinstance(tensor, DTensor) else tensor.detach()


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _place(tensor: Tensor, shape: torch.Size) -> Place:
    if not isinstance(tensor, DTensor):
        return Place(0, 1, shape)
    rank, size = tensor.device_mesh.get_local_rank(), tensor.device_mesh.size()
    each = -(-shape[0] // size)
    first = min(rank * each, shape[0])
    return Place(first, first + len(_local(tensor)), shape)


def _rows_of(files: TensorFiles, name: str, place: Place | None) -> Tensor:
    """The rows of a place. Raises DataError for a tensor of another size than the model's."""
    shape = files.shape(name)
    if place is None or not shape:
        return files.rows(name, 0, shape[0] if shape else 1)
    if shape != place.shape:
        raise DataError(
            f"The tensors of {files.path} do not fit the model: {name} is {tuple(shape)} but the model has "
            f"{tuple(place.shape)}. Build the model from the configuration saved with them."
        )
    return files.rows(name, place.first, place.last)


def _persistent(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The buffers of a model's `state_dict`, by name."""
    for place, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set:
                yield f"{place}.{name}" if place else name, buffer
