"""Sizes for classifiers of vectors and pictures, and what a plan measures of them."""

from itertools import islice
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.reader import Reader
from foveate.errors import DataError, UsageError
from foveate.nn.loss import cross_entropy
from foveate.suggestion import counted
from foveate.tasks.classify.task import ClassifyConfig
from foveate.tasks.labelling_side import BATCH, training
from foveate.tasks.probe import LABELS, Probe, require_fit
from foveate.tasks.size import Allowance, Reason, Suggestion, with_others

SAMPLE = 100
"""Examples that sizes are chosen by."""
ROWS = 64
"""Examples of a batch."""


def suggest_rows(reader: Reader, path: str, allowance: Allowance, *, chosen: bool) -> Suggestion:
    """Patches, model and steps by labelled vectors or pictures; a reader that was `chosen` stays as it is. Raises
    DataError when there are no examples.
    """
    examples = reader.read(path)
    sample = list(islice(examples, SAMPLE))
    labels = {one.label for one in sample}
    total = len(sample)
    for one in examples:
        total += 1
        labels.add(one.label)
    if not sample:
        raise DataError(f"{path} has no labelled {reader.what}. Give what is to be learned from.")
    if not chosen:
        reader = reader.suited(sample)
    rows = reader.learn(sample)
    lengths = [len(rows.row(one.thing)) for one in sample]
    usual, longest = max(sum(lengths) // len(lengths), 1), 2 * max(lengths)

    def suggested(allowance: Allowance) -> Suggestion:
        model, about, pace = _model(rows.input.axes, usual, allowance.tier)
        return Suggestion(
            {
                **({} if chosen else {"reader": to_dict(ClassifyConfig(reader=reader))["reader"]}),
                "model": model,
                "data": {"max_length": longest, "max_tokens": max(ROWS * usual, longest)},
                "train": training(total * BATCH // ROWS, "accuracy", allowance, pace),
            },
            f"{counted(total, 'example')} of {counted(usual, 'vector')}, {counted(len(labels), 'label')}.",
            (Reason("reader", reader.about), Reason("model", f"{about}, {allowance}")),
            allowance.size,
            lengths=(usual,),
        )

    return with_others(suggested, allowance)


def probe_rows(config: ClassifyConfig) -> Probe:
    """The first example of the data, as often as the budget of a batch allows. Raises UsageError without data."""
    if not config.data.data:
        raise UsageError(f"The sizes of {config.files.what} are those of the data: name them with --data.")
    first = list(islice(config.read(config.data.data), SAMPLE))
    if not first:
        raise DataError(f"{config.data.data} has no labelled {config.files.what}. Give what is to be learned from.")
    rows = config.files.learn(first)
    row = rows.row(first[0].thing)
    model = config.classifier(rows.input, LABELS)
    require_fit(model.max_length, len(row), "shorter examples")
    batch = Batch.of([row] * max(config.data.max_tokens // len(row), 1))
    labels = torch.randint(LABELS, (batch.size,), generator=torch.Generator().manual_seed(0))
    return Probe(
        model=model,
        loss=lambda: cross_entropy(model(batch), labels),
        vocabulary=f"{rows.input} and {LABELS} labels",
        batch=f"{batch.size} {config.files.what} of {counted(len(row), 'vector')}",
        tokens=batch.num_tokens,
        unit="vectors",
    )


def _model(axes: int | None, length: int, tier: int) -> tuple[dict[str, Any], str, float]:
    """With what it is in words, and the seconds of one core that a step takes."""
    if axes is not None:
        wide = {"kind": "transformer", "num_layers": 4 if tier == 2 else 2, "position": {"kind": "none"}}
        return {"encoder": wide, "dropout": 0.1}, "a Transformer over patches, and attention that pools", 0.06
    if length == 1:
        encoder = {"kind": "window", "num_layers": 2}
        return {"encoder": encoder, "pooling": {"kind": "first"}}, "two layers, 256 wide, as there is no sequence", 0.01
    return {"encoder": {"kind": "rnn"}}, "a bidirectional GRU, 128 wide, and attention that pools", 0.06
