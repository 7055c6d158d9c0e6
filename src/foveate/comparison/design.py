"""The design of a comparison: variants of one configuration, seeds, and the same data and budget for all."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foveate.config import build, override, setting, to_dict
from foveate.data.text import free_columns
from foveate.errors import UsageError
from foveate.suggestion import counted, did_you_mean
from foveate.tasks import TASKS
from foveate.tasks.side import Asked, Side
from foveate.train import Constant, InverseSquareRoot
from foveate.train.resumption import differences
from foveate.train.schedule import Plateau

UNLIMITED = 10**9
"""The number of steps of a cell whose budget is seconds."""
Kind = Literal["steps", "tokens", "seconds"]
Changes = Mapping[str, Any]
"""Nested plain data that change the base: a table with a `kind` replaces the base's, any other is merged into it."""


@dataclass(frozen=True)
class Budget:
    """The budget of a cell: updates, tokens of the loss, or seconds by the clock.

    >>> print(Budget.parse("tokens=2e6"), Budget.parse("steps=1500"))
    tokens=2000000 steps=1500
    """

    kind: Kind
    amount: int

    @classmethod
    def parse(cls, words: str) -> "Budget":
        """The budget of a string such as "steps=1000". Raises UsageError for any other string."""
        match = re.fullmatch(r"\s*(steps|tokens|seconds)\s*=\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*", words.replace("_", ""))
        amount = float(match[2]) if match else 0.0
        if not match or not 1 <= amount < math.inf or not amount.is_integer():
            raise UsageError(f"A budget is steps=N, tokens=N or seconds=N with a whole N from 1, got {words!r}.")
        return cls(match[1], int(amount))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.kind}={self.amount}"

    @property
    def words(self) -> str:
        return counted(self.amount, self.kind.removesuffix("s"))

    @property
    def fixed(self) -> tuple[str, ...]:
        """Settings that no variant may change, because they would change the budget."""
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
    """A valid comparison: every variant has a valid configuration, and all have the same data and budget."""

    side: Side
    base: Any
    variants: Mapping[str, Any]
    """Configurations by name; the others are compared with the first."""
    seeds: tuple[int, ...]
    budget: Budget
    asked: Asked
    set_aside: tuple[str, ...] = ()
    """Settings of the base that are ignored because they could end a cell before its budget."""
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The changes of each variant, by dotted path."""

    @classmethod
    def of(
        cls, task: str, base: Mapping[str, Any], variants: Mapping[str, Changes], compare: CompareConfig | None = None
    ) -> "Design":
        """Variants of a base, both nested plain data as in a TOML file.

        Raises UsageError for a setting that is unknown or does not fit, and for variants that differ in data, budget
        or nothing.
        """
        if task not in TASKS:
            raise UsageError(
                f"There is no task {task!r}.{did_you_mean(task, TASKS)} Choose one of: {', '.join(TASKS)}."
            )
        compare, side = compare or CompareConfig(), TASKS[task].side
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

    @property
    def shares_tokens(self) -> bool:
        """Whether all variants cut text into the same tokens."""
        return len({str(self.side.data_settings(to_dict(config))) for config in self.variants.values()}) == 1

    def require_comparable(self, metrics: Sequence[str]) -> None:
        """Raises UsageError where variants cut text into other tokens and a metric counts tokens."""
        counted = [name for name in metrics if name in self.side.per_token]
        if counted and not self.shares_tokens:
            fair = [name for name in self.side.metrics() if name not in self.side.per_token]
            instead = f"compare.metrics = {fair[:2]}" if fair else "one tokeniser for all"
            raise UsageError(
                f"The variants have different tokenisers, and {' and '.join(counted)} would count different tokens. "
                f"Choose {instead}."
            )


def _variant(side: Side, base: Mapping[str, Any], name: str, change: Changes, budget: Budget, root: Any) -> Any:
    """The configuration of a variant, with the budget in it."""
    config = build(side.run_config, lay_over(base, change), where=f"variant {name}:", imports=True)
    config = side.whole(config)
    changed = differences(to_dict(root), to_dict(config))
    data = [path for path in changed if path.startswith(("data.", "gaps.")) and path not in side.compared_data]
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
    """The training configuration of a cell, which ends with the budget."""
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
    for one, other in itertools.combinations(variants, 2):
        if variants[one] == variants[other]:
            raise UsageError(f"The variants {one} and {other} are the same. Leave one out, or change a setting.")


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
    """The columns of the test data: those of the base without its links, which test data need not have."""
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
    """The settings that each variant changes, without those that the budget sets."""
    unlimited = {"steps": None, "max_minutes": None, "patience": None}
    theirs = {**base, "train": {**base["train"], **unlimited}}
    changes = {}
    for name, config in variants.items():
        changed = differences(theirs, {**config, "train": {**config["train"], **unlimited}})
        changes[name] = {path: change for path, change in changed.items() if change != "not set → None"}
    return changes


def _listed(paths: Iterable[str], changed: Mapping[str, str]) -> str:
    return ", ".join(f"{path} ({changed[path]})" for path in paths)


def lay_over(base: Any, change: Any) -> Any:
    """The base with a change applied.

    >>> lay_over({"model": {"kind": "luong", "dropout": 0.1}}, {"model": {"dropout": 0.2}})
    {'model': {'kind': 'luong', 'dropout': 0.2}}
    >>> lay_over({"model": {"kind": "luong", "dropout": 0.1}}, {"model": {"kind": "bahdanau"}})
    {'model': {'kind': 'bahdanau'}}
    """
    if not isinstance(change, Mapping) or "kind" in change:
        return change
    if isinstance(base, str):  # `model = "luong"`, with a change of one of its settings
        base = {"kind": base}
    if not isinstance(base, Mapping):
        return dict(change)
    return {**base, **{key: lay_over(base.get(key), part) for key, part in change.items()}}


def varied(vary: Sequence[str]) -> dict[str, Changes]:
    """Variants from `a.b=x,y,z`, or every combination of several such lists. They are named by their values.

    >>> varied(["model.attention.score=dot,general"])
    {'dot': {'model': {'attention': {'score': 'dot'}}}, 'general': {'model': {'attention': {'score': 'general'}}}}
    >>> list(varied(["model.block.num_heads=1,8", "model.position=none,learned"]))
    ['num_heads 1, none', 'num_heads 1, learned', 'num_heads 8, none', 'num_heads 8, learned']

    Raises UsageError for any other string.
    """
    axes = [list(_axis(words)) for words in vary]
    # A kind of model first, which replaces all of the model's settings.
    order = sorted(range(len(vary)), key=lambda number: vary[number].partition("=")[0].count("."))
    variants: dict[str, Changes] = {}
    for combination in itertools.product(*axes):
        name = ", ".join(part for part, _ in combination)
        if name in variants:
            raise UsageError(f"--vary gives {name!r} twice. Name every value once.")
        changes: Any = {}
        for number in order:
            changes = lay_over(changes, combination[number][1])
        variants[name] = changes
    return variants


def _axis(words: str) -> Iterator[tuple[str, Changes]]:
    path, equals, values = words.partition("=")
    if not equals or not all(key.strip() for key in path.split(".")):
        raise UsageError(f"--vary {words}: write a setting, = and its values, like model.attention.score=dot,general.")
    choices = [value.strip() for value in _split(values)]
    if not all(choices):
        raise UsageError(f"--vary {words}: there is an empty value. Write values with one comma between.")
    path = path.strip().removesuffix(".kind")
    last = path.rpartition(".")[2]
    for value in choices:
        # "none" may be a kind, such as no positions; where it is not, building a configuration reads it as nothing.
        change = override({}, [f'{path}="none"' if value == "none" else f"{path}={value}"])
        text = re.fullmatch(r"[A-Za-z_][\w:]*", value) and value not in ("true", "false")
        name = value.strip("\"'") if text or value[0] in "\"'" else f"{last} {value}"
        yield name, change


def _split(values: str) -> list[str]:
    """Values between commas that stand outside of brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def folder_names(names: Iterable[str]) -> dict[str, str]:
    """A folder name for each variant that every file system accepts.

    >>> folder_names(["fixed vector", "σ = 2", "σ: 2"])
    {'fixed vector': 'fixed-vector', 'σ = 2': '2', 'σ: 2': '2-2'}
    """
    folders: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9_.]+", "-", name.lower()).strip("-.") or "variant"
        taken = set(folders.values())
        numbers = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        folders[name] = next(folder for folder in numbers if folder not in taken)
    return folders


def tabled(variants: Any) -> dict[str, Changes]:
    """The variants of a file. Raises UsageError unless they are tables."""
    if not isinstance(variants, Mapping) or not all(isinstance(change, Mapping) for change in variants.values()):
        raise UsageError(
            "compare.variants must be tables of settings by name, such as [compare.variants.dot] with "
            'model.attention.score = "dot" in it; an empty table is the base itself.'
        )
    return dict(variants)
