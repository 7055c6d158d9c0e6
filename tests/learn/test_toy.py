"""Rules with a known answer and a known alignment: the model has to find both, in seconds, from pairs alone."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from foveate import Alignment, BahdanauConfig, TrainConfig, TranslateConfig, TranslateTask, Translation, Translator, fit
from foveate.data.synthetic import Rule, synthetic
from foveate.data.text import Pair
from foveate.decode import GreedyConfig
from foveate.tasks.translate import DataConfig
from foveate.train import Cosine

RULES: tuple[Rule, ...] = ("copy", "reverse", "sort")
STEPS = {"copy": 300, "reverse": 300, "sort": 450}
MODEL = BahdanauConfig(embedding_dim=32, hidden_dim=64, maxout_dim=64, dropout=0.0)
CONFIG = TranslateConfig(model=MODEL, label_smoothing=0.0, decode=GreedyConfig(), seed=1)
LONGEST = 8


@dataclass(frozen=True)
class Learnt:
    """What a model that was trained on a rule makes of pairs that it has not seen."""

    rule: Rule
    pairs: list[Pair]
    translations: list[Translation]
    alignments: list[Alignment]


@pytest.fixture(scope="module", params=RULES)
def learnt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    rule, folder = request.param, tmp_path_factory.mktemp(request.param)
    data = DataConfig(
        source=file(folder, rule, 4000, seed=1), valid_source=file(folder, rule, 100, seed=2), max_tokens=1024
    )
    task, _ = TranslateTask.prepare(replace(CONFIG, data=data), folder)
    steps = STEPS[rule]
    training = TrainConfig(
        steps=steps, learning_rate=1e-2, schedule=Cosine(warmup=50), validate_every=steps, save_every=steps
    )
    fit(task, training, folder)
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, CONFIG.decode)
    pairs = unseen(rule)
    translations = translator.translate([pair.source for pair in pairs])
    return Learnt(rule, pairs, translations, translator.align(translations))


def file(folder: Path, rule: Rule, count: int, *, seed: int) -> str:
    path = folder / f"{seed}.tsv"
    pairs = synthetic(rule, count, seed=seed, longest=LONGEST)
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return str(path)


def unseen(rule: Rule) -> list[Pair]:
    """Pairs long enough that hardly any can be in the training data by chance."""
    return list(synthetic(rule, 200, seed=3, shortest=4, longest=LONGEST))


def test_a_rule_is_learnt_from_pairs_alone(learnt: Learnt) -> None:
    right = total = 0
    for pair, translation in zip(learnt.pairs, learnt.translations, strict=True):
        right += sum(a == b for a, b in zip(pair.target, translation.text, strict=False))
        total += max(len(pair.target), len(translation.text))
    assert right / total >= 0.99


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
    assert found / total >= (0.8 if learnt.rule == "sort" else 0.97)


def test_each_row_of_the_alignment_sums_to_one(learnt: Learnt) -> None:
    for alignment in learnt.alignments:
        assert alignment.weights.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
