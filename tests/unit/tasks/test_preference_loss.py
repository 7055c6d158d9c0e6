"""Training against rejected translations: the loss beside that of the words, its data, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.cli import main
from foveate.data.batch import Batch, Rejection
from foveate.data.parallel import ParallelData
from foveate.errors import DataError, UsageError
from foveate.models import BahdanauConfig, LuongConfig, ModelConfig, TransformerConfig
from foveate.nn import BlockConfig
from foveate.tasks.translate.alignment_head import GuideConfig
from foveate.tasks.translate.pair import Pairs
from foveate.tasks.translate.preference_loss import PreferenceConfig
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask, loss_of_words
from foveate.tasks.translate.use import Translator
from foveate.tasks.unlikelihood_loss import UnlikelihoodConfig

BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, dropout=0.0)
MODELS: dict[str, ModelConfig] = {
    "luong": LuongConfig(embedding_dim=6, hidden_dim=6, dropout=0.0),
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1),
}
SOURCES = [[4, 5, 6, 2], [5, 2], [6, 6, 2]]
TARGETS = [[1, 4, 5, 6, 2], [1, 6, 2], [1, 5, 4, 2]]
SOURCE, TARGET = Batch.of(SOURCES), Batch.of(TARGETS)
REJECTED = {2: [1, 5, 5, 4, 4, 5, 2], 0: [1, 4, 2]}
REJECTION = Rejection(
    Batch.of([*SOURCES, *(SOURCES[row] for row in REJECTED)]),
    Batch.of([*TARGETS, *REJECTED.values()]),
    torch.tensor(list(REJECTED)),
)


def log_probability(model: torch.nn.Module, source: list[int], target: list[int]) -> torch.Tensor:
    """That of a target, alone in its batch."""
    logits = model(Batch.of([source]), Batch.of([target]))
    return logits.log_softmax(-1)[torch.arange(len(target) - 1), target[1:]].sum()


@pytest.mark.parametrize("against", [UnlikelihoodConfig(), UnlikelihoodConfig(weight=0.5, ngram=1)])
@pytest.mark.parametrize("name", MODELS)
def test_a_translator_has_the_loss_of_each_pair_for_each_token_beside_its_own(
    name: str, against: UnlikelihoodConfig
) -> None:
    torch.manual_seed(0)
    model = MODELS[name].build(8, 8).double()
    preference = PreferenceConfig(weight=0.7, beta=0.3)
    config = TranslateConfig(data=DataConfig(source="-"), unlikelihood=against, preference=preference)
    own = loss_of_words(model, config, SOURCE, TARGET)
    expected = own.clone()
    for row, rejected in REJECTED.items():
        better, worse = (log_probability(model, SOURCES[row], text) for text in (TARGETS[row], rejected))
        expected = expected - 0.7 * (len(TARGETS[row]) - 1) * torch.sigmoid(0.3 * (better - worse)).log()
    torch.testing.assert_close(loss_of_words(model, config, SOURCE, TARGET, REJECTION), expected)
    assert expected > own + 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight": 0.0}, "weight must be finite and above 0, got 0.0"),
        ({"weight": float("inf")}, "weight must be finite and above 0, got inf"),
        ({"beta": -1.0}, "beta must be finite and above 0, got -1.0"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        PreferenceConfig(**settings)


def files(folder: Path, rejected: str, *, pairs: str = "ab\tAB\nba\tBA\nabb\tABB\n") -> DataConfig:
    for name, text in (("pairs.tsv", pairs), ("rejected.txt", rejected), ("valid.tsv", "ab\tAB\n")):
        (folder / name).write_text(text)
    paths = {name: str(folder / file) for name, file in (("source", "pairs.tsv"), ("valid_source", "valid.tsv"))}
    return DataConfig(**paths, rejected=str(folder / "rejected.txt"), max_length=6)


def config_of(data: DataConfig) -> TranslateConfig:
    return TranslateConfig(data=data, model=MODELS["transformer"])


def test_each_pair_is_stored_with_its_rejected_translation(tmp_path: Path) -> None:
    task, reports = TranslateTask.prepare(config_of(files(tmp_path, "BB\n\nA\n")), tmp_path / "run")
    assert str(reports["train"]) == "All 3 pairs are used. 2 have a rejected translation."
    assert str(reports["valid"]) == "1 of 1 pair is used."
    target = task.target_tokeniser
    batch = task.training.batch([1, 2, 0])
    rejection = batch.rejection
    assert rejection is not None
    assert rejection.rows.tolist() == [1, 2]
    rows = zip(rejection.target.ids.tolist(), rejection.target.lengths.tolist(), strict=True)
    texts = [target.decode(row[:length]) for row, length in rows]
    assert texts == ["BA", "ABB", "AB", "A", "BB"]
    assert rejection.source.ids[3:, :3].tolist() == batch.source.ids[1:, :3].tolist()
    assert task.training.batch([1]).rejection is None
    assert task.validation.rejected is None
    again = ParallelData.open(tmp_path / "run" / "data" / "train")
    again.require(task.source_tokeniser, target)
    again.verify()
    moved = batch.to("meta").rejection
    assert moved is not None
    assert {part.device.type for part in (moved.rows, moved.source.values, moved.target.values)} == {"meta"}


def test_a_rejected_translation_that_is_too_long_leaves_its_pair_out_and_is_named(tmp_path: Path) -> None:
    _, reports = TranslateTask.prepare(config_of(files(tmp_path, "\n\nABABAB\n")), tmp_path / "run")
    assert str(reports["train"]) == (
        "2 of 3 pairs are used. 1 has a side of more than 6 tokens (the longest has 7): line 3."
    )


def test_a_rejected_translation_that_is_the_target_is_named(tmp_path: Path) -> None:
    data = files(tmp_path, "BB\nBA\n\n")
    with pytest.raises(DataError, match=r"rejected.txt:2: the rejected translation is the target itself. Empty this"):
        TranslateTask.prepare(config_of(data), tmp_path / "run")


def test_rejected_translations_of_another_number_of_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rejected.txt has 2 lines but there are 3 pairs. Line n of the rejected"):
        TranslateTask.prepare(config_of(files(tmp_path, "BB\nBA\n")), tmp_path / "run")


def test_no_line_is_held_out_for_a_comparison(tmp_path: Path) -> None:
    data = replace(files(tmp_path, "\n" * 40, pairs="ab\tAB\n" * 40), valid_source=None)
    with pytest.raises(DataError, match="Rejected translations belong to the lines of their files"):
        Pairs(data, 0).hold_out(tmp_path / "out")


def test_another_file_of_rejected_translations_prepares_the_data_again(tmp_path: Path) -> None:
    data = files(tmp_path, "BB\n\nA\n")
    before = Pairs(data, 0).origin("train")
    (tmp_path / "rejected.txt").write_text("BBB\n\nA\n")
    assert Pairs(data, 0).origin("train") != before


def test_a_model_that_samples_positions_is_refused(tmp_path: Path) -> None:
    model = BahdanauConfig(
        embedding_dim=6,
        hidden_dim=6,
        maxout_dim=4,
        attention=AttentionConfig(score=AdditiveConfig(), normaliser=HardConfig(mode="sample")),
    )
    with pytest.raises(UsageError, match="Rejected translations are for models that learn from their logits alone"):
        TranslateTask.prepare(replace(config_of(files(tmp_path, "BB\n\n\n")), model=model), tmp_path / "run")


def test_guided_attention_is_that_of_the_pairs_alone(tmp_path: Path) -> None:
    data = files(tmp_path, "BBBB\n\nA\n")
    (tmp_path / "pairs.links").write_text("0-0\n0-0\n0-0\n")
    guided = replace(data, links=str(tmp_path / "pairs.links"))
    config = replace(config_of(guided), guide=GuideConfig(layer=0, weight=2.0))
    task, _ = TranslateTask.prepare(config, tmp_path / "run")
    batch = task.training.batch([0, 1, 2])
    assert batch.links is not None
    assert len(batch.links)
    assert batch.rejection is not None
    together = task.loss(batch)
    without = task.loss(replace(batch, rejection=None))
    words = loss_of_words(task.model, config, batch.source, batch.target, batch.rejection)
    own = loss_of_words(task.model, config, batch.source, batch.target)
    torch.testing.assert_close(together.total - without.total, words - own)
    assert together.count == without.count


def test_training_makes_rejected_translations_rarer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the pairs say AB and half say BA; those with a rejected BA decide."""
    data = files(tmp_path, "BA\n\n" * 60, pairs="ab\tAB\nab\tBA\n" * 60)
    arguments = ["train", "translate", "--source", data.source, "--valid-source", str(data.valid_source)]
    settings = ["train.steps=60", "data.max_tokens=128", "train.learning_rate=0.01", "model.kind=transformer"]
    size = ["encoder_layers=1", "decoder_layers=1", "block.model_dim=16", "block.num_heads=2"]
    for setting in [*settings, *(f"model.{part}" for part in size), "model.block.feedforward_dim=16"]:
        arguments += ["--set", setting]
    differences = []
    for name, more in (("without", []), ("with", ["--set", "preference.weight=5", "--rejected", str(data.rejected)])):
        assert main([*arguments, *more, "--out", str(tmp_path / name)]) == 0
        translator = Translator.load(tmp_path / name)
        better, worse = (translator.score(translator.forced("ab", text)) for text in ("AB", "BA"))
        differences.append(better - worse)
    assert "120 pairs are used. 60 have a rejected translation." in capsys.readouterr().err
    without, preferred = differences
    assert abs(without) < 0.7
    assert preferred > 1.5
