"""The parts that have a page in docs/mechanisms: all that a configuration can name, and an example of each."""

import inspect
import json
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from foveate.attention import AttentionConfig, Positions, padding, predicate, same_segment, visibility
from foveate.attention.bias import BiasConfig, GaussianConfig, GridGaussianConfig
from foveate.attention.efficient import AnyMechanismConfig
from foveate.attention.normaliser import NormaliserConfig
from foveate.attention.score import FeedbackScore, ScoreConfig
from foveate.attention.transform import GridRotary, TransformConfig
from foveate.attention.visibility import Visibility
from foveate.config.field import kind_of
from foveate.nn import RAN, RANConfig
from foveate.nn.position_vector import PositionConfig
from foveate.nn.ran_layer import RANLayer

DIM, HEADS = 16, 2
"""Sizes of the examples that are drawn."""
SITE = "model.block.encoder_attention"
RULES = {
    "everything": "everything()",
    "causal": "causal()",
    "window": "window(left=3, right=0)",
    "dilated": "dilated(left=6, right=0, step=2)",
    "around": "around(left=2, right=2)",
    "padding": "padding([9])",
    "prefix": "prefix(4)",
    "block": "block(4)",
    "chunk": "chunk(3, left=1)",
    "global_tokens": "global_tokens(2)",
    "random_blocks": "random_blocks(block=2, count=1, seed=0)",
    "longformer": "longformer(window=2, tokens=1)",
    "bigbird": "bigbird(block=2, window=3, tokens=1, random=1)",
    "sparse": "sparse(block=4)",
    "neighbourhood": "neighbourhood(columns=4, reach=1)",
    "summary": "summary(block=4, count=1)",
    "edges": "edges([[0, 1, 2, 3, 5, 8], [1, 2, 0, 8, 3, 5]], self_loops=True)",
}
"""The call of each rule in the example of its page."""


EXAMPLES: dict[type, Callable[[], Any]] = {
    GaussianConfig: lambda: GaussianConfig(sigma=2.0),
    GridGaussianConfig: lambda: GridGaussianConfig(columns=4),
    GridRotary: lambda: GridRotary(columns=4),
}
"""The examples of parts that need settings."""


def even(at: Positions) -> Tensor:
    return at.key % 2 == 0


IN_PYTHON = {
    "same_segment": (same_segment(), "Attention(visibility=causal() & same_segment()).run(query, key, value, at=at)"),
    "predicate": (predicate(even), "Attention(visibility=causal() & predicate(even)).run(query, key, value)"),
}
"""Rules that a configuration cannot name: one needs positions with segments, the other a function."""


@dataclass(frozen=True)
class Entry:
    """One page."""

    section: str
    kind: str
    subject: Any
    """The object whose docstring explains the part."""
    setting: str
    """The line of TOML that chooses it, or of Python where no file can."""
    config: Any
    """Builds the example that is drawn and timed."""
    whole: Any = None
    """The network that has the subject as a layer, with a docstring of its own."""

    @property
    def title(self) -> str:
        return self.kind.replace("_", " ")

    @property
    def name(self) -> str:
        """The name of its files: a rule and a mechanism may share a kind."""
        return f"{self.section}-{self.kind}".replace("_", "-")


def entries() -> Iterator[Entry]:
    """Every part that a configuration can name."""
    for cls in members(ScoreConfig):
        config = AttentionConfig(score=cls())
        built = cls().build(query_dim=DIM, key_dim=DIM, num_heads=HEADS)
        site = "model.attention" if isinstance(built, FeedbackScore) else SITE
        yield Entry("score", kind_of(cls), type(built), f'{site}.score.kind = "{kind_of(cls)}"', config)
    for cls in members(NormaliserConfig):
        config = AttentionConfig(normaliser=cls())
        setting = f'{SITE}.normaliser.kind = "{kind_of(cls)}"'
        yield Entry("normaliser", kind_of(cls), type(cls().build()), setting, config)
    for cls in members(BiasConfig):
        example = EXAMPLES.get(cls, cls)()
        built = example.build(num_heads=HEADS, head_dim=DIM)
        setting = f"{SITE}.bias = {to_toml_line(example)}"
        yield Entry("bias", kind_of(cls), type(built), setting, AttentionConfig(bias=example))
    for cls in members(TransformConfig):
        example = EXAMPLES.get(cls, cls)()
        built = example.build(head_dim=DIM, num_heads=HEADS)
        config = AttentionConfig(transforms=(example,))
        yield Entry("transform", kind_of(cls), type(built), f"{SITE}.transforms = [{to_toml_line(example)}]", config)
    for name, code in RULES.items():
        rule = Visibility.parse(code)
        config = AttentionConfig(visibility=rule)
        said = "padding()" if name == "padding" else code  # drawn for one batch; a file speaks of every one
        yield Entry("visibility", name, getattr(visibility, name), f'{SITE}.visibility = "{said}"', config)
    for name, (rule, code) in IN_PYTHON.items():
        yield Entry("visibility", name, getattr(visibility, name), code, AttentionConfig(visibility=rule))
    for cls in members(AnyMechanismConfig):
        if cls is not AttentionConfig:
            yield Entry("formula", kind_of(cls), _subject(cls), f'{SITE}.kind = "{kind_of(cls)}"', cls())
    for cls in members(PositionConfig):
        setting = f'model.position.kind = "{kind_of(cls)}"'
        yield Entry("position", kind_of(cls), _subject(cls), setting, cls())
    yield Entry("recurrent", "ran", RANLayer, 'model.encoder.kind = "ran"', RANConfig(num_layers=1), whole=RAN)


def members(union: Any) -> list[type]:
    """The classes of a union, or the one class."""
    return list(typing.get_args(union)) or [union]


def to_toml_line(config: Any) -> str:
    """A configuration as an inline table, without its default values."""
    given = {field.name: getattr(config, field.name) for field in fields(config) if field.default is MISSING}
    return (
        "{"
        + ", ".join(f"{name} = {json.dumps(value)}" for name, value in {"kind": kind_of(type(config)), **given}.items())
        + "}"
    )


def built(config: Any, *, dim: int = DIM, heads: int = HEADS) -> Any:
    """The mechanism of a configuration."""
    return config.build(query_dim=dim, key_dim=dim, num_heads=heads, visibility=padding(), kind="self")


def sized(config: Any, length: int) -> Any:
    """The same configuration with room for so many positions, where there is a limit."""
    if isinstance(config, AttentionConfig):
        return replace(config, score=sized(config.score, length))
    limit = getattr(config, "max_length", None)
    return config if limit is None or limit >= length else replace(config, max_length=length)


def placed(entry: Entry, length: int, heads: int = HEADS) -> Positions | None:
    """The positions for a mechanism that reads more than the places of queries and keys."""
    at = Positions.of(length, length)
    if entry.kind == "location_aware":
        return replace(at, previous=torch.eye(length).roll(1, 0).expand(1, heads, -1, -1))
    if entry.kind == "same_segment":
        segment = torch.bucketize(torch.arange(length), torch.tensor([0.4, 0.75]) * length, right=True)
        return replace(at, query_segment=segment[None, None, :, None], key_segment=segment[None, None, None])
    return None


def _subject(cls: type) -> Any:
    """The class that a configuration builds, if its docstring says more than the configuration's."""
    built = typing.get_type_hints(getattr(cls, "build_for", cls.build)).get("return")
    ours = inspect.isclass(built) and built.__module__.startswith("foveate") and built.__name__ != "Attention"
    return built if ours and inspect.getdoc(built) else cls
