"""Rules with a known answer and a known alignment: a model has to find both, in seconds, from pairs alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from foveate import (
    Alignment,
    BahdanauConfig,
    FixedContextConfig,
    TrainConfig,
    TranslateConfig,
    TranslateTask,
    Translation,
    Translator,
    fit,
)
from foveate.data.synthetic import Rule, synthetic
from foveate.data.text import Pair
from foveate.decode import GreedyConfig
from foveate.tasks.translate.task import DataConfig
from foveate.train import Cosine

BAHDANAU = BahdanauConfig(embedding_dim=32, hidden_dim=64, maxout_dim=64, dropout=0.0)
FIXED_CONTEXT = FixedContextConfig(embedding_dim=32, hidden_dim=128, dropout=0.0)
STEPS: dict[Rule, int] = {"copy": 180, "reverse": 180, "sort": 450}
LONGEST = 8


@dataclass(frozen=True)
class Learnt:
    """What a model that was trained on a rule makes of pairs that it has not seen."""

    rule: Rule
    pairs: list[Pair]
    translations: list[Translation]
    alignments: list[Alignment]


@pytest.fixture(scope="module", params=STEPS)
def learnt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    rule = request.param
    translator = trained(BAHDANAU, rule, tmp_path_factory.mktemp(rule), steps=STEPS[rule], longest=LONGEST)
    pairs = list(synthetic(rule, 200, seed=3, shortest=4, longest=LONGEST))
    translations = translator.translate([pair.source for pair in pairs])
    return Learnt(rule, pairs, translations, translator.align(translations))


def trained(
    model: BahdanauConfig | FixedContextConfig,
    rule: Rule,
    folder: Path,
    *,
    steps: int,
    longest: int,
    symbols: str = "abcdefghijklmnop",
) -> Translator:
    """The model after some steps on random words and what the rule makes of them."""
    for name, count in {"train": 4000, "valid": 100}.items():
        pairs = synthetic(rule, count, seed=len(name), longest=longest, symbols=symbols)
        (folder / f"{name}.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), "utf-8")
    config = TranslateConfig(
        data=DataConfig(source=str(folder / "train.tsv"), valid_source=str(folder / "valid.tsv"), max_tokens=1024),
        model=model,
        label_smoothing=0.0,
        decode=GreedyConfig(),
        seed=1,
    )
    training = TrainConfig(
        steps=steps, learning_rate=1e-2, schedule=Cosine(warmup=50), validate_every=steps, save_every=steps
    )
    task, _ = TranslateTask.prepare(config, folder)
    fit(task, training, folder)
    return Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)


def accuracy(pairs: Sequence[Pair], translations: Sequence[Translation]) -> float:
    """The share of tokens that stand where they should; a missing or an extra one is wrong."""
    right = total = 0
    for pair, translation in zip(pairs, translations, strict=True):
        right += sum(a == b for a, b in zip(pair.target, translation.text, strict=False))
        total += max(len(pair.target), len(translation.text))
    return right / total


def test_a_rule_is_learnt_from_pairs_alone(learnt: Learnt) -> None:
    assert accuracy(learnt.pairs, learnt.translations) >= 0.99


def test_the_learnt_alignment_is_the_rule(learnt: Learnt) -> None:
    """Copying looks along the diagonal, reversing along the anti-diagonal, sorting at the symbol that it writes."""
    found = total = 0
    for alignment in (alignment.without_specials() for alignment in learnt.alignments):
        length = len(alignment.source)
        for row, column in enumerate(alignment.weights.argmax(axis=1)):
            total += 1
            if learnt.rule == "sort":
                found += alignment.source[column] == alignment.target[row]
            else:
                found += column == (row if learnt.rule == "copy" else length - 1 - row)
    assert found / total >= (0.75 if learnt.rule == "sort" else 0.9)


def test_attention_keeps_long_words_that_one_fixed_vector_forgets(tmp_path: Path) -> None:
    """The fixed context has more weights, the same data and the same recipe, and loses more the longer words get."""
    seen = {}
    for name, model in {"attention": BAHDANAU, "fixed": FIXED_CONTEXT}.items():
        (tmp_path / name).mkdir()
        translator = trained(model, "reverse", tmp_path / name, steps=200, longest=16, symbols="abcdefgh")
        for length in (2, 14):
            pairs = list(synthetic("reverse", 100, seed=3, shortest=length - 1, longest=length + 1, symbols="abcdefgh"))
            found = translator.translate([pair.source for pair in pairs])
            seen[name, length] = accuracy(pairs, found)
    assert seen["attention", 2] >= 0.95
    assert seen["attention", 14] >= 0.9
    assert seen["fixed", 14] <= 0.5
    assert seen["fixed", 2] - seen["fixed", 14] >= 0.3
