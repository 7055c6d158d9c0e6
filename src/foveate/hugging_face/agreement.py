"""Compares a model's results with its own attention and with ours, on a small padded batch."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature, unwrap
from typing import Any
from warnings import warn

import torch
from torch import Tensor, nn

from foveate.errors import UsageError
from foveate.hugging_face.guest_formula import Guest
from foveate.hugging_face.interface import CHILD, NAME

LENGTH, WRITTEN = 12, 9
"""The lengths of the batch and of a decoder's input beside an encoder; they differ, so that masks can be told apart."""
LONGEST = 300
"""The maximum length of the batch for a model that compresses many tokens into one key."""
NARROW = 4
"""The length of windows that are longer than the batch, for the second comparison."""
WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention")
TOLERANCE = {torch.float64: 3e-4, torch.float32: 3e-4, torch.float16: 3e-2, torch.bfloat16: 1e-1}
"""Relative to the largest number at a real position. Float32 rounds to about 1e-6 here; models of a half type are
compared in float32 if that is affordable.
"""
AFFORDABLE = 2**32
"""The bytes of float32 weights up to which a model of a half type is compared in float32."""
OUTPUTS = ("past_key_values", "loss", "aux_loss", "mems")
"""Outputs of models that are not compared."""
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A model's inputs, and masks of the real positions of its outputs, by length."""

    inputs: Inputs
    real: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "Batch":
        masks = (value for name, value in inputs.items() if name.endswith("attention_mask") and _flat(value))
        return cls(dict(inputs), tuple(mask.bool() for mask in masks))

    def kept(self, answer: Tensor) -> Tensor:
        """The real positions of an answer."""
        mask = next((mask for mask in self.real if answer.shape[:2] == mask.shape), None)
        return (answer if mask is None else answer[mask.to(answer.device)]).double()


@torch.no_grad()
def require_agreement(model: Any, sites: Mapping[str, nn.Module], inputs: Mapping[str, Any] | None = None) -> None:
    """Run a small padded batch with the model's eager attention and with ours, and again with windows of a few tokens
    if the model has windows. The model, its buffers and the random generators are unchanged afterwards.

    Raises UsageError if real positions differ, if ours cannot run, or if no batch suits the model; warns of attentions
    that no batch reached.
    """
    kind = type(model).__name__
    if any(weight.is_meta for weight in model.parameters()):
        raise UsageError(f"This {kind} has no weights yet (they are on the device 'meta'). Load them first.")
    with _unchanged(model), _precise(model):
        reached = _compare_all(model, model, sites, inputs)
        if inputs is None:
            for name, part in _parts(model):
                below = {site: module for site, module in sites.items() if site.startswith(f"{name}.")}
                if below and not reached & below.keys():
                    reached |= _compare_all(model, part, below, None)
    if not reached:
        raise UsageError(
            f"The attention of {kind} could not be compared with ours: foveate knows no small batch of "
            f"{_main_input(model)} for it. Pass one, with padding if the model supports it: "
            "attend(model, inputs={…})."
        )
    rest = [name for name in sites if name not in reached]
    if rest:
        warn(
            f"{len(rest)} of {len(sites)} attentions of {kind} did not run on the batch that compares ours with "
            f"theirs: {', '.join(rest[:3])}{' …' if len(rest) > 3 else ''}. To compare them, pass a batch that "
            "reaches them: attend(model, inputs={…}).",
            stacklevel=4,
        )


def _compare_all(model: Any, part: Any, sites: Mapping[str, nn.Module], inputs: Mapping[str, Any] | None) -> set[str]:
    """Compare on the first batch that the model accepts; return the sites that ran, none without such a batch."""
    for batch in [Batch.of(inputs)] if inputs is not None else list(_batches(part)):
        try:
            theirs = _answers(model, part, batch, "eager")
        except Exception as error:  # models raise any error for unsuitable inputs
            if inputs is not None:
                raise UsageError(f"{type(model).__name__} does not accept these inputs: {error}") from error
            continue
        reached = _compared(model, part, sites, batch, theirs, "a small padded batch")
        with _narrow(part) as narrow:
            if narrow:
                _compared(model, part, sites, batch, _answers(model, part, batch, "eager"), "windows of a few tokens")
        return reached
    return set()


def _compared(
    model: Any, part: Any, sites: Mapping[str, nn.Module], batch: Batch, theirs: Mapping[str, Tensor], where: str
) -> set[str]:
    kind, reached = type(model).__name__, set[str]()
    way_out = "The model is unchanged. Keep its own attention, or use ours only where both agree."
    with _guests(sites, reached):
        try:
            ours = _answers(model, part, batch, NAME)
        except UsageError as error:
            raise UsageError(f"{kind} cannot use attention of ours: {error}") from error
        except Exception as error:
            raise UsageError(
                f"{kind} fails on {where} with attention of ours, but runs with its own: {type(error).__name__}: "
                f"{error}. {way_out}"
            ) from error
    for name, expected in theirs.items():
        largest, actual = float(expected.abs().max()) if expected.numel() else 0.0, ours.get(name)
        apart = math.inf if actual is None or actual.shape != expected.shape else _apart(actual, expected)
        if not apart <= _tolerance(model) * max(largest, 1e-6):
            raise UsageError(
                f"{kind} gives other results with attention of ours: on {where} its {name} differ by "
                f"{apart / max(largest, 1e-6):.1%} of the largest value. It uses masks or scores in an unknown way. "
                f"{way_out}"
            )
    return reached


def _apart(actual: Tensor, expected: Tensor) -> float:
    """The largest difference; NaN equals NaN."""
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    difference = (actual - expected).abs().nan_to_num(nan=math.inf)
    return float(torch.where(same, 0.0, difference).max()) if same.numel() else 0


def _answers(model: Any, part: Any, batch: Batch, implementation: str) -> dict[str, Tensor]:
    """A model's outputs at real positions, by name."""
    model.set_attn_implementation(implementation)
    output = part(**batch.inputs)
    parts = output if isinstance(output, tuple) else (output,)
    named = output.items() if isinstance(output, Mapping) else enumerate(parts)
    return {
        str(name): batch.kept(value)
        for name, value in named
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() and name not in OUTPUTS
    }


class Noting(Guest):
    """An attention that notes that it ran."""

    def __init__(self, name: str, reached: set[str]) -> None:
        super().__init__()
        self.note = lambda: reached.add(name)

    def run(self, *tensors: Tensor, **others: Any) -> Tensor:
        self.note()
        return super().run(*tensors, **others)


@contextmanager
def _guests(sites: Mapping[str, nn.Module], reached: set[str]) -> Iterator[None]:
    """Put plain attentions of ours at all sites, and restore the former ones on exit."""
    before = {name: module._modules.get(CHILD) for name, module in sites.items()}
    try:
        for name, module in sites.items():
            setattr(module, CHILD, Noting(name, reached))
        yield
    finally:
        for name, module in sites.items():
            delattr(module, CHILD)
            if (earlier := before[name]) is not None:
                setattr(module, CHILD, earlier)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """The models within a model, the outer ones first."""
    return ((name, part) for name, part in model.named_modules() if name and hasattr(part, "set_attn_implementation"))


def _batches(model: Any) -> Iterator[Batch]:
    """Small batches that a model may accept, the most informative first."""
    takes = signature(unwrap(type(model).forward)).parameters
    device = _device(model)
    text = _text(model, takes, device) if "input_ids" in takes else {}
    features = [
        {name: value} for name, maker in FEATURES.items() if name in takes for value in maker(model.config, device)
    ]
    plain = {"use_cache": False} if "use_cache" in takes else {}
    decoded = _decoded(model, takes, device)
    if _main_input(model) in FEATURES:
        yield from (Batch.of({**each, **decoded, **plain}) for each in features)
        yield from (Batch.of({**each, **plain}) for each in features if decoded)
    if text and "encoder_hidden_states" in takes and getattr(model.config, "add_cross_attention", False):
        yield Batch.of({**text, **plain, "encoder_hidden_states": _noise(model, device)})
    if text:
        yield Batch.of({**text, **decoded, **plain})
    yield from (Batch.of({**text, **each, **plain}) for each in features if text)


def _text(model: Any, takes: Mapping[str, Any], device: torch.device) -> Inputs:
    """Three rows: without padding, padded at the end, padded at the beginning."""
    length = _length(model.config)
    ids = _ids(model, 3, length, device)
    # Some models read the output at the end token or at the largest id, which must therefore be at a real token.
    end, rows, lasts = _end(model), torch.arange(3), torch.tensor([length - 1, length - 5, length - 1])
    largest = int(ids.max())
    ids[ids == largest] = int(ids.min())
    ids[rows, lasts - 1] = largest
    if end is not None:
        ids[rows, lasts] = end
    inputs: Inputs = {"input_ids": ids}
    if "attention_mask" in takes:
        mask = torch.ones(3, length, dtype=torch.long, device=device)
        mask[1, -4:] = 0
        mask[2, :5] = 0
        inputs["attention_mask"] = mask
    return inputs


def _length(config: Any) -> int:
    """The length of a batch that is long enough for models that compress tokens into keys."""
    rates = [0]
    for part in (config, config.get_text_config()):
        for name, value in vars(part).items():
            if "compress_rate" in name:
                rates += [
                    each for each in (value.values() if isinstance(value, dict) else [value]) if isinstance(each, int)
                ]
    return min(max(LENGTH, 2 * max(rates) + 5), LONGEST)


def _decoded(model: Any, takes: Mapping[str, Any], device: torch.device) -> Inputs:
    if "decoder_input_ids" not in takes:
        return {}
    inputs: Inputs = {"decoder_input_ids": _ids(model, 3, WRITTEN, device)}
    if "decoder_attention_mask" in takes:
        mask = torch.ones(3, WRITTEN, dtype=torch.long, device=device)
        mask[1, -3:] = 0
        inputs["decoder_attention_mask"] = mask
    return inputs


def _ids(model: Any, rows: int, length: int, device: torch.device) -> Tensor:
    """Random tokens that are not special according to the configuration."""
    config = model.config.get_text_config()
    count = _vocab_size(model)
    special = {
        number
        for each in (model.config, config)
        for name, number in vars(each).items()
        if name.endswith(("_token_id", "_token_index")) and isinstance(number, int)
    }
    ordinary = torch.tensor([number for number in range(min(count, 4096)) if number not in special] or [0])
    chosen = torch.randint(len(ordinary), (rows, length), generator=torch.Generator().manual_seed(0))
    return ordinary[chosen].to(device)


def _vocab_size(model: Any) -> int:
    return int(getattr(model.config.get_text_config(), "vocab_size", 0) or getattr(model.config, "vocab_size", 0) or 8)


def _end(model: Any) -> int | None:
    """The token that ends a text."""
    end = getattr(model.config.get_text_config(), "eos_token_id", None)
    return end if isinstance(end, int) and 0 <= end < _vocab_size(model) else None


def _noise(model: Any, device: torch.device) -> Tensor:
    width = getattr(model.config, "cross_attention_hidden_size", None) or model.config.get_text_config().hidden_size
    return torch.randn(3, LENGTH, width, generator=torch.Generator().manual_seed(1)).to(device)


def _pixels(config: Any, device: torch.device) -> Iterator[Tensor]:
    config = getattr(config, "vision_config", None) or config
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", 3)
    if isinstance(size, int | list | tuple):
        height, width = (size, size) if isinstance(size, int) else size
        yield _drawn((3, channels, height, width), device)


def _filterbank(config: Any, device: torch.device) -> Iterator[Tensor]:
    bins, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    if isinstance(bins, int) and isinstance(frames, int):
        yield _drawn((3, bins, 2 * frames), device)
    for width in ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins"):
        if isinstance(getattr(config, width, None), int):
            yield _drawn((3, 48, getattr(config, width)), device)


def _values(config: Any, device: torch.device) -> Iterator[Tensor]:
    if isinstance(getattr(config, "num_mel_bins", None), int) and isinstance(getattr(config, "max_length", None), int):
        yield _drawn((3, config.max_length, config.num_mel_bins), device)
    yield _drawn((3, 5000), device)


FEATURES: dict[str, Callable[[Any, torch.device], Iterator[Tensor]]] = {
    "pixel_values": _pixels,
    "input_features": _filterbank,
    "input_values": _values,
}
"""The functions that make inputs other than tokens."""


def _drawn(shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(device)


@contextmanager
def _narrow(model: Any) -> Iterator[bool]:
    """Shorten the windows in every configuration of a model; yields False without windows."""
    before: list[tuple[Any, str, Any]] = []
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    for config in configs.values():
        for name in WINDOWS:
            value = getattr(config, name, None)
            if isinstance(value, int) and value > NARROW:
                try:
                    setattr(config, name, NARROW)
                except (AttributeError, TypeError, ValueError):
                    continue
                before.append((config, name, value))
    try:
        yield bool(before)
    finally:
        for config, name, value in reversed(before):
            setattr(config, name, value)


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Set evaluation mode; on exit restore modes, attributes, buffers and random generators."""
    modules = list(model.modules())
    configs = {id(module.config): module.config for module in modules if hasattr(module, "config")}
    snapshots = [(each, _attributes(each)) for each in (*modules, *configs.values())]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    devices = {weight.device for weight in (*model.parameters(), *model.buffers()) if weight.is_cuda}
    model.eval()
    with torch.random.fork_rng([device.index or 0 for device in devices]):
        try:
            with torch.autocast(_device(model).type, enabled=False):
                yield
        finally:
            for each, attributes in snapshots:
                _restore(each, attributes)
            for buffer, values in buffers:
                buffer.copy_(values)


def _attributes(thing: Any) -> dict[str, tuple[Any, Any]]:
    """Every attribute, with a copy of those that are dictionaries, because they hold modules and hooks."""
    return {name: (value, value.copy() if isinstance(value, dict) else None) for name, value in vars(thing).items()}


def _restore(thing: Any, attributes: Mapping[str, tuple[Any, Any]]) -> None:
    for name in [name for name in vars(thing) if name not in attributes]:
        del vars(thing)[name]
    for name, (value, copy) in attributes.items():
        vars(thing)[name] = value
        if copy is not None and (value.keys() != copy.keys() or any(value[key] is not copy[key] for key in copy)):
            value.clear()
            value.update(copy)


@contextmanager
def _precise(model: Any) -> Iterator[None]:
    """Convert weights and buffers of a half type to float32 if they are few enough, and restore them on exit."""
    halves = [each for each in model.parameters() if each.dtype in (torch.float16, torch.bfloat16)]
    if not halves or 4 * sum(each.numel() for each in model.parameters()) > AFFORDABLE:
        yield
        return
    halves += [each for each in model.buffers() if each.dtype in (torch.float16, torch.bfloat16)]
    before = [(each, each.data) for each in halves]
    try:
        for each in halves:
            each.data = each.data.float()
        yield
    finally:
        for each, data in before:
            each.data = data


def _tolerance(model: Any) -> float:
    return max((TOLERANCE.get(weight.dtype, 0.0) for weight in model.parameters()), default=3e-4)


def _device(model: Any) -> torch.device:
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


def _main_input(model: Any) -> str:
    return str(getattr(model, "main_input_name", "input_ids"))


def _flat(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 2
