"""ViT and DeiT of Hugging Face in commands: from the file of a picture to the probabilities of their library."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import transformers
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from foveate.cli import main
from foveate.data.image import ImageRows
from foveate.data.label import Labels
from foveate.data.picture_processor import PROCESSOR, ProcessedPictures
from foveate.errors import DataError, UsageError
from foveate.inspect import read_trace
from foveate.models import ClassifierConfig, ViTConfig
from foveate.models.vit_hugging_face import write_vit
from foveate.nn import FirstPoolingConfig
from foveate.tasks.classify.use import RowClassifier, TextClassifier

NAMES = {0: "ant", 1: "bee", 2: "cat"}
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "patch_size": 4,
    "id2label": NAMES,
}
WIDE = {"height": 8, "width": 12}
PROCESSORS: dict[str, Any] = {
    "ViT": lambda: ViTImageProcessorPil(size=WIDE, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.25]),
    "ViT in grey": lambda: ViTImageProcessorPil(size=WIDE, image_mean=[0.4], image_std=[0.2], rescale_factor=1 / 200),
    "DeiT": lambda: DeiTImageProcessorPil(size={"height": 11, "width": 15}, crop_size=WIDE),
    "DeiT with a teacher": lambda: DeiTImageProcessorPil(size=12, crop_size=8, resample=1),
}
MODELS = {
    "ViT": (transformers.ViTConfig, transformers.ViTForImageClassification),
    "ViT in grey": (transformers.ViTConfig, transformers.ViTForImageClassification),
    "DeiT": (transformers.DeiTConfig, transformers.DeiTForImageClassification),
    "DeiT with a teacher": (transformers.DeiTConfig, transformers.DeiTForImageClassificationWithTeacher),
}


@torch.no_grad()
def guest(kind: str, folder: Path, **settings: Any) -> tuple[Any, Any]:
    """The model and the processor in a folder."""
    config, model = MODELS[kind]
    sizes = {**SIZES, "image_size": 8 if "teacher" in kind else [8, 12], "num_channels": 1 if "grey" in kind else 3}
    torch.manual_seed(0)
    built = model(config(**{**sizes, **settings})).eval()
    for weight in built.parameters():  # theirs begin at zero in part, and so small that nothing attends
        torch.nn.init.normal_(weight, std=0.3)
    for head in built.children():
        if isinstance(head, torch.nn.Linear):  # so that pictures differ in their labels
            head.weight *= 3
    built.save_pretrained(folder)
    processor = PROCESSORS[kind]()
    processor.save_pretrained(folder)
    return built, processor


def pictures(folder: Path, *, grey: bool) -> list[Path]:
    """Pictures of several sizes, in a folder for each label."""
    random, paths = np.random.default_rng(0), list[Path]()
    for number, (rows, columns) in enumerate([(8, 12), (37, 50), (23, 6), (5, 9), (40, 40), (16, 24)]):
        path = folder / NAMES[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        levels = random.integers(0, 256, (rows, columns) if grey else (rows, columns, 3), dtype=np.uint8)
        PIL.Image.fromarray(levels).save(path)
        paths.append(path)
    return paths


@pytest.mark.parametrize(("kind", "silent"), [*((kind, False) for kind in MODELS), ("ViT", True), ("DeiT", True)])
@torch.no_grad()
def test_a_file_has_the_probabilities_of_their_library(kind: str, silent: bool, tmp_path: Path) -> None:
    model, processor = guest(kind, tmp_path / "guest")
    if silent:  # their default is another filter for each model
        path = tmp_path / "guest" / PROCESSOR
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({name: settings[name] for name in settings if name != "resample"}))
        processor = type(processor).from_pretrained(tmp_path / "guest")
    paths = pictures(tmp_path / "pictures", grey="grey" in kind)
    classifier = RowClassifier.load(tmp_path / "guest")
    answers = classifier.classify(paths)
    expected = [model(**processor(PIL.Image.open(path), return_tensors="pt")).logits.softmax(-1)[0] for path in paths]
    assert torch.stack(expected).std(0).max() > 0.01
    for answer, shares in zip(answers, expected, strict=True):
        assert [answer.probabilities[name] for name in NAMES.values()] == pytest.approx(shares.tolist(), abs=1e-5)


def trained(rows: ImageRows) -> RowClassifier:
    """A classifier that tells pictures apart."""
    torch.manual_seed(0)
    encoder = ViTConfig(block=replace(ViTConfig().block, model_dim=24, num_heads=3, feedforward_dim=36), num_layers=1)
    model = ClassifierConfig(encoder=encoder, pooling=FirstPoolingConfig()).build(rows.input, len(NAMES)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return RowClassifier(model, rows, Labels(list(NAMES.values())))


PREPARED = {
    "colour": ImageRows(patch=4, colour=True, grid=(2, 3), fit="stretch", mean=(0.4, 0.5, 0.6), deviation=(0.2,)),
    "grey": ImageRows(patch=4, colour=False, grid=(2, 3), fit="stretch", mean=(0.3,), deviation=(0.4,)),
    "cut": ProcessedPictures(
        patch=4, colour=True, grid=(2, 3), fit="stretch", scaled_size=(11, 15), resampling=3, factor=1 / 200
    ),
}


@pytest.mark.parametrize("kind", PREPARED)
@torch.no_grad()
def test_a_folder_of_ours_prepares_pictures_there_as_here(kind: str, tmp_path: Path) -> None:
    rows, folder = PREPARED[kind], tmp_path / "ours"
    ours = trained(rows)
    write_vit(ours.model, folder, labels=ours.labels.names, rows=ours.rows)
    model = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    paths = pictures(tmp_path / "pictures", grey=kind == "grey")
    scaled_alike = paths if kind == "cut" else paths[:1]  # the first has the model's size
    read = RowClassifier.load(folder)
    for path in paths:
        theirs = processor(PIL.Image.open(path), return_tensors="pt")
        pixels = rows.input.picture(torch.from_numpy(rows.row(path).values))
        step = max(rows.levels.step)
        torch.testing.assert_close(
            theirs["pixel_values"][0], pixels, rtol=0, atol=1e-5 if path in scaled_alike else step + 1e-5
        )
    expected = [model(**processor(PIL.Image.open(path), return_tensors="pt")).logits.softmax(-1)[0] for path in paths]
    assert torch.stack(expected).std(0).max() > 0.003
    for path, answer, shares in zip(paths, read.classify(paths), expected, strict=True):
        assert [answer.probabilities[name] for name in NAMES.values()] == pytest.approx(shares.tolist(), abs=1e-5)
        if path in scaled_alike:
            here = ours.classify([path])[0].probabilities
            assert answer.probabilities == pytest.approx(here, abs=1e-5)


def test_rows_that_their_processor_cannot_follow_are_refused(tmp_path: Path) -> None:
    ours = trained(PREPARED["colour"])
    with pytest.raises(ValueError, match='fit="crop", and ViTImageProcessor stretches'):
        write_vit(ours.model, tmp_path / "out", rows=replace(PREPARED["colour"], fit="crop"))
    with pytest.raises(ValueError, match=r"The model reads .*but the rows are"):
        write_vit(ours.model, tmp_path / "out", rows=PREPARED["grey"])
    assert not (tmp_path / "out").exists()


def test_commands_read_a_folder_of_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = tmp_path / "guest", tmp_path / "pictures"
    guest("DeiT", run)
    paths = pictures(folder, grey=False)
    labels = [answer.label for answer in RowClassifier.load(run).classify(paths)]
    capsys.readouterr()
    assert main(["classify", str(run), *map(str, paths)]) == 0
    assert capsys.readouterr().out.split() == labels
    assert main(["evaluate", str(run), "--data", str(folder)]) == 0
    right = sum(path.parent.name == label for path, label in zip(paths, labels, strict=True))
    assert f"{100 * right / len(paths):.2f}" in capsys.readouterr().out
    assert main(["look", str(run), str(paths[1]), "--trace", str(tmp_path / "kept")]) == 0
    track = read_trace(tmp_path / "kept").tracks["source"]
    assert track.labels[:3] == ("[class]", "[distillation]", "0,0")
    assert track.grid == (2, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_processor_type": "CLIPImageProcessor"}, "for the processor 'CLIPImageProcessor', and only ViTImage"),
        ({"size": {"shortest_edge": 8}}, "have height and width alone, not shortest_edge"),
        ({"size": {**WIDE, "longest_edge": 8}}, "have height and width alone, not longest_edge"),
        ({"do_convert_rgb": False}, "do_convert_rgb=False is not supported"),
        ({"rescale_factor": [0.1]}, "rescale_factor must be one number"),
        ({"size": {"height": 8, "width": 8}}, r"pictures become \[8, 8\] pixels, and the model reads \[8, 12\]"),
        ({"do_center_crop": True, "crop_size": [8, 12]}, "crop_size=.* must be a whole number"),
        ({"do_center_crop": True, "crop_size": WIDE, "size": 4}, r"at least \[8, 12\]"),
        ({"do_resize": False}, "do_resize=False is not supported"),
        ({"do_pad": True}, "do_pad asks for a change of pictures that is not known"),
        ({"resample": 9}, "resample must be one of Pillow's filters"),
        ({"resample": "bicubic"}, "resample must be the number"),
        ({"image_mean": None}, "image_mean must be a list of numbers"),
        ({"image_mean": [0.5, 0.5]}, "image_mean must be one number or 3"),
        ({"image_std": [0, 1, 1]}, "image_std above 0"),
        ({"rescale_factor": "1/255"}, "rescale_factor"),
    ],
)
def test_another_preparation_of_pictures_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    guest("ViT", tmp_path)
    path = tmp_path / PROCESSOR
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=f"{PROCESSOR}: .*{message}"):
        RowClassifier.load(tmp_path)


def test_a_folder_without_its_processor_or_a_single_label_is_refused(tmp_path: Path) -> None:
    guest("ViT", tmp_path / "guest")
    with pytest.raises(UsageError, match="does not read texts"):
        TextClassifier.load(tmp_path / "guest")
    (tmp_path / "guest" / PROCESSOR).unlink()
    with pytest.raises(DataError, match=f"has no {PROCESSOR}, which says how pictures become numbers"):
        RowClassifier.load(tmp_path / "guest")
    guest("ViT", tmp_path / "several", problem_type="multi_label_classification")
    with pytest.raises(UsageError, match="several labels at once"):
        RowClassifier.load(tmp_path / "several")
