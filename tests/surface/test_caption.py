"""From a table of pictures and captions to captions of new pictures, and where each word looks."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.data.batch import Batch
from foveate.data.image import ImageReader, ImageRows
from foveate.data.image_augmentation import ImageAugmentationConfig
from foveate.data.parallel import ParallelData
from foveate.data.store import FeatureStore
from foveate.data.tokeniser import BOS, EOS, WordTokeniser
from foveate.decode import BeamConfig, SampleConfig
from foveate.errors import UsageError
from foveate.inspect import write_trace
from foveate.inspect.figure.pixel import photograph
from foveate.metrics import caption_scores
from foveate.models import CaptionerConfig, GazeConfig, TransformerSpellerConfig
from foveate.models.convolution import PictureCNNConfig
from foveate.models.vit import ViTConfig
from foveate.nn import BlockConfig, TransformerEncoderConfig
from foveate.tasks.caption import side
from foveate.tasks.caption.task import CaptionConfig, CaptionDataConfig, CaptionTask, PictureParts
from foveate.tasks.caption.use import Describer

PLACES = {"left": (0, 0), "right": (0, 1)}
SHADES = {"dark": 90, "light": 220}
SMALL = ("--set", "reader.patch=4", "--set", "reader.colour=false", "--set", "model.encoder.channels=[8,8]")
BRIEF = ("--no-tune", "--threads", "1", "--set", "train.steps=4", "--set", "data.max_tokens=200")


def picture(place: str, shade: str, seed: int) -> np.ndarray:
    """16 x 16 pixels with a bright square on one side."""
    pixels = np.random.default_rng(seed).integers(0, 30, (16, 16), dtype=np.uint8)
    column = 8 * PLACES[place][1]
    pixels[4:12, column + 1 : column + 7] = SHADES[shade]
    return np.repeat(pixels[..., None], 3, axis=2)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 pictures with two captions each, on a line each."""
    folder, lines = tmp_path_factory.mktemp("pictures"), []
    for number, (place, shade) in enumerate(list(itertools.product(PLACES, SHADES)) * 12):
        (folder / f"{number}.png").write_bytes(photograph(picture(place, shade, number)))
        lines += [f"{number}.png\ta {shade} square {place}\n", f"{number}.png\t{place} is a {shade} square\n"]
    (folder / "captions.tsv").write_text("".join(lines))
    return folder / "captions.tsv"


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    out = tmp_path_factory.mktemp("runs") / "captioner"
    said = foveate("train", "caption", "--data", table, "--out", out, *SMALL, *BRIEF)
    assert said.code == 0, said.err
    assert "captions of pictures drawn from" in said.err
    return out


ROWS = ImageRows(patch=4, colour=False, grid=(4, 4))
WORDS = WordTokeniser.train(["a dark square left", "a light square right"])
BLOCK = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=16, norm="pre", dropout=0.0)
DECODERS = {
    "soft": GazeConfig(embedding_dim=6, hidden_dim=8),
    "hard": GazeConfig(
        embedding_dim=6,
        hidden_dim=8,
        attention=AttentionConfig(score=AdditiveConfig(), normaliser=HardConfig(mode="sample")),
    ),
    "without": GazeConfig(embedding_dim=6, hidden_dim=8, attention=None),
    "transformer": TransformerSpellerConfig(block=BLOCK, num_layers=1),
}
ENCODERS = {
    "cnn": PictureCNNConfig(channels=(8, 8)),
    "vit": ViTConfig(block=BLOCK, num_layers=1),
    "transformer": TransformerEncoderConfig(block=BLOCK, num_layers=1),
}


def describer(encoder: str, decoder: str) -> Describer:
    torch.manual_seed(4)
    config = CaptionerConfig(encoder=ENCODERS[encoder], decoder=DECODERS[decoder], embedding_dim=8)
    model = config.build(ROWS.input, WORDS.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return Describer(model, ROWS, WORDS, BeamConfig(beam=3, num_best=2), max_text=9)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    for number, (place, shade) in enumerate(itertools.product(PLACES, SHADES)):
        (folder / f"{number}.png").write_bytes(photograph(picture(place, shade, number)))
    return sorted(folder.iterdir())


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_caption_depends_neither_on_the_batch_nor_on_its_neighbours(
    encoder: str, decoder: str, files: list[Path]
) -> None:
    model = describer(encoder, decoder)
    for config in (model.config, SampleConfig(seed=3)):
        for number, one in enumerate(model.caption(files, config=config)):
            (alone,) = model.caption([files[number]], config=config, examples=[number])
            assert alone.texts == one.texts
            assert alone.hypotheses[0].log_probability == pytest.approx(one.hypotheses[0].log_probability, abs=1e-4)
    assert model.caption(iter(files)) == model.caption(files)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_trace_has_the_grid_of_the_encoder_and_exact_weights(encoder: str, files: list[Path]) -> None:
    model = describer(encoder, "soft")
    trace = model.trace(files[0], "a dark square left")
    (site,) = [one for one in trace.sites if one.kind == "cross"]
    track = trace.tracks["source"]
    assert track.grid == model.model.grid
    weights, _ = site.weights(0)
    batch = Batch.of([model.row(files[0])])
    target = Batch.of([[BOS, *WORDS.encode("a dark square left"), EOS]])
    with torch.no_grad():
        exact = model.model.decoder._forced(model.model.encode(batch).batch, target, weights=True).weights
    assert weights.shape == (5, track.grid[0] * track.grid[1])
    torch.testing.assert_close(weights, exact[0], atol=3e-3, rtol=0)  # a trace keeps 16 bits
    assert list(trace.tracks["target"].labels)[:4] == ["a", "dark", "square", "left"]


def test_pictures_of_one_table_line_or_several_stay_together_when_some_are_held_out(table: Path) -> None:
    config = CaptionConfig(
        data=CaptionDataConfig(data=str(table), held_out=9), reader=ImageReader(patch=4, colour=False)
    )
    parts = PictureParts(config)
    training, validation = ({str(one.thing) for one in parts(part)} for part in ("train", "valid"))
    assert not training & validation
    assert len(training) + len(validation) == 48
    assert 9 <= sum(1 for _ in parts("valid")) <= 10


def test_a_resumed_training_has_the_same_batches_and_places(table: Path, tmp_path: Path) -> None:
    config = CaptionConfig(
        data=CaptionDataConfig(data=str(table), max_tokens=200),
        reader=ImageReader(patch=4, colour=False),
        model=CaptionerConfig(encoder=ENCODERS["transformer"], decoder=DECODERS["soft"], embedding_dim=8),
    )
    task, _ = CaptionTask.prepare(config, tmp_path / "run")
    again = CaptionTask.open(config, tmp_path / "run")
    for step in (1, 5):
        one, other = task.batch(step), again.batch(step)
        assert torch.equal(one.source.values, other.source.values)
        assert one.source.places is not None
        assert one.source.places[0].tolist() == [[row, column] for row in range(4) for column in range(4)]
    assert set(task.validate()) == {"loss", "accuracy"}


def test_commands_write_captions_and_score_them_against_all_references(
    run: Path, table: Path, tmp_path: Path, foveate: Any
) -> None:
    first, second = table.parent / "0.png", table.parent / "1.png"
    said = foveate("caption", run, first, second, "--no-tune")
    assert (said.code, said.out.count("\n")) == (0, 2), said.err
    best = foveate("caption", run, first, "--n-best", "2", "--beam", "4", "--no-tune").out.splitlines()
    assert [line.split("\t")[0] for line in best] == ["1", "1"]
    drawn = [foveate("caption", run, first, "--sample", "--set", "seed=5", "--no-tune").out for _ in range(2)]
    assert drawn[0] == drawn[1]
    said = foveate("evaluate", run, "--data", table, "--save", tmp_path / "out.txt", "--no-tune")
    assert said.code == 0, said.err
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 48
    assert [line.split("|")[0] for line in said.out.splitlines()] == ["BLEU", "chrF2", "CIDEr-D"]
    assert "nrefs:2" in said.out
    said = foveate("look", run, first, "--html", tmp_path / "look.html", "--no-tune")
    assert said.code == 0, said.err
    assert "patches" in (tmp_path / "look.html").read_text()
    said = foveate("caption", run, first, "--sample", "--beam", "3", "--no-tune")
    assert "--sample draws one caption" in said.err


@pytest.mark.parametrize("references", [1, 2, "var"])
def test_pictures_are_scored_against_one_and_several_references(
    references: int | str, run: Path, table: Path, tmp_path: Path, foveate: Any
) -> None:
    lines = [line.split("\t") for line in table.read_text().splitlines()[:8]]
    chosen = lines if references == 2 else lines[::2] if references == 1 else lines[:-1]
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{table.parent / name}\t{text}\n" for name, text in chosen))
    said = foveate("evaluate", run, "--data", test, "--save", tmp_path / "out.txt", "--no-tune")
    assert said.code == 0, said.err
    assert f"4 pictures with {len(chosen)} captions" in said.err
    assert f"CIDEr-D|nrefs:{references}|" in said.out
    captions = (tmp_path / "out.txt").read_text().splitlines()
    texts: dict[str, list[str]] = {}
    for name, text in chosen:
        texts.setdefault(name, []).append(text)
    expected = [str(score) for score in caption_scores(captions, list(texts.values()))]
    assert said.out.splitlines() == expected


def test_hard_attention_draws_its_places_by_a_seed(
    run: Path, table: Path, files: list[Path], tmp_path: Path, foveate: Any
) -> None:
    hard = describer("cnn", "hard")
    drawn = [[one.text for one in hard.caption(files * 3, glimpses=seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    (alone,) = hard.caption(files[2:3], glimpses=1, examples=[6])
    assert alone.text == drawn[0][6]
    with pytest.raises(UsageError, match="This model draws no places"):
        describer("cnn", "soft").caption(files, glimpses=1)
    said = foveate("caption", run, table.parent / "0.png", "--glimpses", "3", "--no-tune")
    assert "This model draws no places" in said.err


def test_look_draws_the_words_of_a_caption_over_the_picture(
    run: Path, table: Path, tmp_path: Path, foveate: Any
) -> None:
    first, out = table.parent / "0.png", tmp_path / "gaze.svg"
    kept = write_trace(Describer.load(run).trace(first, "a dark square left"), tmp_path / "kept.trace")
    said = foveate("look", kept, "--out", out)
    assert said.code == 0, said.err
    assert out.read_text().count("<image ") == 5  # the path and four words
    said = foveate("look", kept, "--out", out, "--scale", "log")
    assert "--scale is for maps" in said.err


def test_look_aligns_a_given_caption(run: Path, table: Path, tmp_path: Path, foveate: Any) -> None:
    first, out = table.parent / "0.png", tmp_path / "gaze.svg"
    said = foveate("look", run, first, "--target", "a dark square left", "--out", out, "--no-tune")
    assert said.code == 0, said.err
    assert re.findall(r">[1-9] (\w+)</text>", out.read_text()) == ["a", "dark", "square", "left"]
    said = foveate("look", run, first, "--target", "a violet square", "--out", out, "--no-tune")
    assert said.code != 0
    assert "The model does not know 'violet'" in said.err


def test_the_penalty_of_the_paper_is_the_users_choice(run: Path, table: Path, foveate: Any) -> None:
    """With many places and few words it makes every map flat, so that the command leaves it out."""
    assert Describer.load(run).model.decoder.penalty == 0
    planned = foveate("plan", "caption", "--data", table, "--set", "model.decoder.penalty=0.5", "--show")
    assert "penalty = 0.5" in planned.out
    other = foveate("plan", "caption", "--data", table, "--set", "model.decoder=transformer", "--show")
    assert other.code == 0, other.err


def test_a_bad_picture_does_not_end_the_others(run: Path, table: Path, tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    said = foveate("caption", run, tmp_path / "bad.png", table.parent / "0.png", "--no-tune")
    assert said.code == 3
    assert len(said.out.splitlines()) == 2
    assert "bad.png" in said.err


def test_a_drawn_caption_depends_on_its_place_in_the_command_and_not_on_bad_neighbours(
    run: Path, table: Path, tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    good = [table.parent / f"{number}.png" for number in range(6)]
    draw = ("--sample", "--set", "seed=5", "--no-tune")
    alone = foveate("caption", run, *good, *draw).out.splitlines()
    assert len(set(alone)) == 6
    assert foveate("caption", run, *good, tmp_path / "bad.png", *draw).out.splitlines() == [*alone, ""]
    others = foveate("caption", run, *good[:2], tmp_path / "bad.png", *good[3:], *draw).out.splitlines()
    assert others == [*alone[:2], "", *alone[3:]]
    monkeypatch.setattr(side, "TOGETHER", 4)
    assert foveate("caption", run, *good, *draw).out.splitlines() == alone


def test_stored_pictures_are_bytes_and_equal_the_rows_in_use(table: Path, run: Path) -> None:
    rows, stored = Describer.load(run).rows, FeatureStore.open(run / "data" / "valid" / "source")
    lines = ParallelData.open(run / "data" / "valid").lines.tolist()
    assert (stored.folder / stored.file).stat().st_size == len(stored) * 16 * 16
    for number, line in enumerate(lines):
        assert (stored[number] == rows.row(table.parent / f"{(line - 1) // 2}.png").values).all()


def test_captions_are_not_mixed() -> None:
    with pytest.raises(ValueError, match=r"mixup=0\.4 blends the labels of two pictures, and captions cannot be"):
        CaptionConfig(reader=ImageReader(augmentation=ImageAugmentationConfig(mixup=0.4)))


def test_class_tokens_have_no_place_and_unknown_words_no_trace(files: list[Path]) -> None:
    with pytest.raises(ValueError, match="vectors without a place"):
        CaptionerConfig(encoder=ViTConfig(class_tokens=1))
    with pytest.raises(UsageError, match="does not know 'frisbee'"):
        describer("cnn", "soft").trace(files[0], "a frisbee")
    with pytest.raises(UsageError, match="it sees the mean of the grid"):
        describer("cnn", "without").trace(files[0])
