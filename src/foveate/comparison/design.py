"""What is compared with what: variants of one configuration, seeds, and the same data and budget for all."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foveate.comparison.variant import Changes, lay_over
from foveate.config import build, setting, to_dict
from foveate.data.text import free_columns
from foveate.errors import UsageError
from foveate.suggestion import counted, did_you_mean
from foveate.tasks import TASKS
from foveate.tasks.side import Asked, Side
from foveate.train import Constant, InverseSquareRoot
from foveate.train.resumption import differences
from foveate.train.schedule import Plateau

UNLIMITED = 10**9
"""Steps of a cell that a budget of seconds ends."""
Kind = Literal["steps", "tokens", "seconds"]


@dataclass(frozen=True)
class Budget:
    """What every cell may use, and no more: updates, tokens of the loss, or seconds by the clock.

    >>> print(Budget.parse("tokens=2e6"), Budget.parse("steps=1500"))
    tokens=2000000 steps=1500
    """

    kind: Kind
    amount: int

    @classmethod
    def parse(cls, words: str) -> "Budget":
        """The budget of a string such as "steps=1000". Raises UsageError for any other string."""
        match = re.fullmatch(r"\s*(steps|tokens|seconds)\s*=\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*", words.replace("_", ""))
        if not match or not float(match[2]) == int(float(match[2])) >= 1:
            raise UsageError(f"A budget is steps=N, tokens=N or seconds=N with a whole N from 1, got {words!r}.")
        return cls(match[1], int(float(match[2])))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.kind}={self.amount}"

    @property
    def words(self) -> str:
        return counted(self.amount, self.kind.removesuffix("s"))

    @property
    def fixed(self) -> tuple[str, ...]:
        """Settings that no variant may change, for the budget would not be the same."""
        batches = ("data.max_tokens", "train.accumulate") if self.kind == "steps" else ()
        return ("train.steps", "train.max_minutes", "train.patience", *batches)


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """The table [compare] of a configuration file."""

    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds of weights, order of batches and dropout; or how many")
    budget: str | None = setting(None, "steps=N, tokens=N or seconds=N for each cell; none: train.steps")
    metrics: tuple[str, ...] = setting((), "what is measured, the most telling first; none: what suits the task")
    lengths: tuple[int, ...] = setting((), "longest of each group of lengths; none: round ones with enough examples")
    test: Any = setting(None, "files to measure on, such as source; none: the validation data")
    variants: Any = setting(None, "tables of changes by name; the first is what others are compared with")
    vary: Any = setting(None, "lists of values by setting: every combination is a variant")

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ValueError(f"seeds must be different whole numbers from 0, at least one, got {list(self.seeds)}")
        if list(self.lengths) != sorted({length for length in self.lengths if length > 0}):
            raise ValueError(f"lengths must rise from at least 1, got {list(self.lengths)}")


@dataclass(frozen=True, kw_only=True)
class Design:
    """A comparison that can be made: every variant builds, and nothing but what is compared differs."""

    side: Side
    base: Any
    variants: Mapping[str, Any]
    """Configurations by name; the first is what others are compared with."""
    seeds: tuple[int, ...]
    budget: Budget
    asked: Asked
    set_aside: tuple[str, ...] = ()
    """Settings of the base that would have ended cells before their budget."""
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What each variant changes, by dotted path."""

    @classmethod
    def of(
        cls, task: str, base: Mapping[str, Any], variants: Mapping[str, Changes], compare: CompareConfig | None = None
    ) -> "Design":
        """Variants of a base, both nested plain data as in a TOML file.

        Raises UsageError for a setting that is unknown or does not fit, and for variants that differ in data, budget
        or nothing.
        """
        compare, side = compare or CompareConfig(), side_of(task)
        root = side.whole(build(side.run_config, base, imports=True))
        if not getattr(root.data, side.entry.first):
            raise UsageError(
                f"data.{side.entry.first} is missing: there is nothing to train on. Set it, or give a file."
            )
        if len(variants) < 2:
            raise UsageError(
                "There is nothing to compare: give two variants at least, as tables [compare.variants.NAME] in the "
                "file or with --vary A.B=VALUE,VALUE."
            )
        budget = Budget.parse(compare.budget) if compare.budget else Budget("steps", root.train.steps)
        configs = {name: _variant(side, base, name, change, budget, root) for name, change in variants.items()}
        _require_different(configs)
        _require_same_data(side, configs)
        side.require_metrics(compare.metrics)
        return cls(
            side=side,
            base=root,
            variants=configs,
            seeds=compare.seeds,
            budget=budget,
            asked=Asked(
                metrics=compare.metrics,
                test=_test(side, compare.test),
                columns=_test_columns(root.data),
                lengths=compare.lengths,
            ),
            set_aside=tuple(
                f"train.{name}" for name in ("max_minutes", "patience") if getattr(root.train, name) is not None
            ),
            changes=_changes(to_dict(root), {name: to_dict(config) for name, config in configs.items()}),
        )

    @property
    def first(self) -> str:
        return next(iter(self.variants))

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Every variant with every seed: all variants of a seed come before the next seed."""
        return [(name, seed) for seed in self.seeds for name in self.variants]

    def require_comparable(self, metrics: Sequence[str]) -> None:
        """Raises UsageError where variants cut text into other tokens and a metric counts tokens."""
        cuts = {str(self.side.data_settings(to_dict(config))) for config in self.variants.values()}
        counted = [name for name in metrics if name in self.side.per_token]
        if len(cuts) > 1 and counted:
            fair = [name for name in self.side.metrics() if name not in self.side.per_token]
            instead = f"compare.metrics = {fair[:2]}" if fair else "one tokeniser for all"
            raise UsageError(
                f"The variants have different tokenisers, and {' and '.join(counted)} would count different tokens. "
                f"Choose {instead}."
            )


def side_of(task: str) -> Side:
    """What a comparison asks of a task. Raises UsageError for one that is unknown."""
    if task not in TASKS:
        raise UsageError(f"There is no task {task!r}.{did_you_mean(task, TASKS)} Choose one of: {', '.join(TASKS)}.")
    return TASKS[task].side


def _variant(side: Side, base: Mapping[str, Any], name: str, change: Changes, budget: Budget, root: Any) -> Any:
    """The configuration of a variant, with the budget in it."""
    config = build(side.run_config, lay_over(base, change), where=f"variant {name}:", imports=True)
    config = side.whole(config)
    changed = differences(to_dict(root), to_dict(config))
    data = [path for path in changed if path.startswith(("data.", "gaps.")) and path != "data.max_tokens"]
    if data:
        raise UsageError(
            f"variant {name} changes {_listed(data, changed)}: results of different data cannot be compared. "
            "Make a comparison for each."
        )
    for path in changed:
        if path in ("seed", "train.seed"):
            raise UsageError(f"variant {name} changes {path}. Every variant has every seed: set compare.seeds instead.")
        if path in budget.fixed:
            raise UsageError(
                f"variant {name} changes {_listed([path], changed)}: the budget, {budget.words}, would not be the "
                "same. Leave it out, or compare by another budget: tokens=N or seconds=N."
            )
    return replace(config, train=_limited(config.train, budget, name))


def _limited(train: Any, budget: Budget, name: str) -> Any:
    """How to train within the budget, and to its end."""
    if budget.kind == "seconds":
        if not isinstance(train.schedule, Constant | InverseSquareRoot | Plateau):
            raise UsageError(
                f"variant {name}: the schedule {type(train.schedule).__name__.lower()} ends with train.steps, which a "
                "budget of seconds does not know. Choose constant or inverse_square_root, or a budget of steps."
            )
        return replace(train, steps=UNLIMITED, max_minutes=budget.amount / 60, patience=None)
    steps = budget.amount if budget.kind == "steps" else train.steps
    return replace(train, steps=steps, max_minutes=None, patience=None)


def _require_different(variants: Mapping[str, Any]) -> None:
    names = list(variants)
    for number, name in enumerate(names):
        for other in names[:number]:
            if variants[name] == variants[other]:
                raise UsageError(f"The variants {other} and {name} are the same. Leave one out, or change a setting.")


def _require_same_data(side: Side, variants: Mapping[str, Any]) -> None:
    """Raises UsageError where one model would leave out long examples that another keeps."""
    limits = {name: side.longest(config) for name, config in variants.items()}
    if len(set(limits.values())) > 1:
        listing = ", ".join(f"{name}: {limit}" for name, limit in limits.items())
        shortest = min(limit for limit in limits.values() if limit is not None)
        raise UsageError(
            f"The variants keep examples of different lengths ({listing}), so they would not have the same data. "
            f"Give all models as many positions, or set data.max_length = {shortest}."
        )


def _test_columns(data: Any) -> tuple[int, int] | None:
    """Those of the test data: as in the base, whose links the test data need not have."""
    columns: tuple[int, int] | None = getattr(data, "columns", None)
    beside = getattr(data, "links_column", None)
    return free_columns(beside) if columns is None and beside is not None else columns


def _test(side: Side, test: Any) -> dict[str, str]:
    test = {} if test is None else test
    if not isinstance(test, Mapping) or not all(isinstance(path, str) for path in test.values()):
        raise UsageError(f"compare.test must be a table of files: {', '.join(side.entry.tests)}.")
    for name in test:
        if name not in side.entry.tests:
            names = ", ".join(side.entry.tests)
            raise UsageError(f"compare.test.{name} is not a setting. The settings are: {names}.")
    if test and next(iter(side.entry.tests)) not in test:
        raise UsageError(f"compare.test.{next(iter(side.entry.tests))} is missing. Give the file to measure on.")
    return dict(test)


def _changes(base: Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """What distinguishes the variants, and not what the budget does to all of them."""
    changes = {}
    for name, config in variants.items():
        ours = {**config, "train": {**config["train"], "steps": None, "max_minutes": None, "patience": None}}
        theirs = {**base, "train": {**base["train"], "steps": None, "max_minutes": None, "patience": None}}
        changed = differences(theirs, ours)
        changes[name] = {path: change for path, change in changed.items() if change != "not set → None"}
    return changes


def _listed(paths: Iterable[str], changed: Mapping[str, str]) -> str:
    return ", ".join(f"{path} ({changed[path]})" for path in paths)
