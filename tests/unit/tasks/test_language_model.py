"""The language model's task: every token is predicted once, figures are those of the text, steps are pure functions."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.data.batch import Batch
from foveate.data.block import blocks_in_turn
from foveate.data.tokeniser import EOS, ByteConfig, CharacterConfig, SentencePieceConfig
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig
from foveate.errors import DataError, UsageError
from foveate.models import GPTConfig, RecurrentLanguageModelConfig
from foveate.nn import BlockConfig, LearnedConfig
from foveate.tasks.language_model.task import LanguageModelTask, LanguageModelTaskConfig, score
from foveate.tasks.language_model.use import Generator
from foveate.tasks.run_plan import Allowance
from foveate.tasks.text_side import suggested
from foveate.tasks.text_task import TextConfig, text_of, tokens_of

GPT = GPTConfig(
    block=BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre"),
    num_layers=1,
    position=LearnedConfig(max_length=24),
)
LINES = [f"line {number} says: café n° {number * number}" for number in range(60)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def config(text: Path, **settings: object) -> LanguageModelTaskConfig:
    data = TextConfig(text=str(text), block_length=16, max_tokens=64)
    return LanguageModelTaskConfig(**{"data": data, "tokeniser": ByteConfig(), "model": GPT} | settings)


@pytest.fixture(scope="module")
def task(text: Path, tmp_path_factory: pytest.TempPathFactory) -> LanguageModelTask:
    return LanguageModelTask.prepare(config(text), tmp_path_factory.mktemp("run"))


def test_the_last_tenth_of_the_lines_is_held_out(task: LanguageModelTask) -> None:
    assert text_of(task.data.tokeniser, task.data.training.tokens.tolist()) == "\n" + "\n".join(LINES[:54]) + "\n"
    assert text_of(task.data.tokeniser, task.data.validation.tokens.tolist()) == "\n" + "\n".join(LINES[54:]) + "\n"


def test_bytes_are_those_of_the_file(task: LanguageModelTask, text: Path) -> None:
    assert task.validation_bytes == sum(len(line.encode()) + 1 for line in LINES[54:])
    task.model.eval()
    figures = task.validate()
    # One token a byte: bits per byte are the loss in other units.
    assert figures["bits_per_byte"] == pytest.approx(figures["loss"] / math.log(2))
    assert figures["perplexity"] == pytest.approx(math.exp(figures["loss"]))
    generator = Generator(task.model, task.data.tokeniser, data=task.config.data)
    assert generator.evaluate(LINES[54:]) == figures


@pytest.mark.parametrize("apart", [False, True])
def test_bytes_are_those_of_the_text_and_not_of_what_its_tokens_say(text: Path, tmp_path: Path, apart: bool) -> None:
    lines = ["øøø a line ∑ of others", *LINES[54:]]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES[:54] + lines), encoding="utf-8")
    (tmp_path / "valid.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = TextConfig(text=str(tmp_path / "text.txt"), held_out=7, block_length=16, max_tokens=64)
    if apart:
        data = replace(data, text=str(text), valid_text=str(tmp_path / "valid.txt"))
    settings = config(text, tokeniser=CharacterConfig(), data=data)
    prepared = LanguageModelTask.prepare(settings, tmp_path / "run")
    for task in (prepared, LanguageModelTask.open(settings, tmp_path / "run")):
        task.model.eval()
        held_out = lines if apart else (LINES[:54] + lines)[-6:]
        assert task.validation_bytes == sum(len(line.encode()) + 1 for line in held_out)
        generator = Generator(task.model, task.data.tokeniser, data=data)
        assert task.validate() == generator.evaluate(held_out)


def test_a_run_of_an_earlier_version_counts_the_bytes_of_its_tokens(text: Path, tmp_path: Path) -> None:
    expected = LanguageModelTask.prepare(config(text), tmp_path).validation_bytes
    (tmp_path / "data" / "bytes.json").unlink()
    assert LanguageModelTask.open(config(text), tmp_path).validation_bytes == expected


def test_rows_are_stretches_of_the_text_and_an_epoch_has_each_once(task: LanguageModelTask) -> None:
    tokens = bytes(task.data.training.tokens.astype("<u2"))
    for epoch in range(2):
        steps = range(epoch * task.steps_per_epoch, (epoch + 1) * task.steps_per_epoch)
        rows = [bytes(row) for step in steps for row in task.batch(step).ids.numpy().astype("<u2")]
        assert all(row in tokens and len(row) == 34 for row in rows)
        starts = sorted(start for step in steps for start in task.plan.starts(step))
        assert len(set(starts)) == len(starts) == task.steps_per_epoch * task.plan.rows
        assert {later - earlier for earlier, later in itertools.pairwise(starts)} <= {16, 32, 48}


def test_a_batch_is_a_function_of_its_number(task: LanguageModelTask, text: Path, tmp_path: Path) -> None:
    again = LanguageModelTask.prepare(config(text), tmp_path)
    for step in (73, 0, 5):
        assert torch.equal(again.batch(step).ids, task.batch(step).ids)
    assert not torch.equal(task.batch(0).ids, task.batch(1).ids)


@pytest.mark.parametrize(
    "tokeniser", [CharacterConfig(), SentencePieceConfig(vocab_size=300)], ids=["character", "sentencepiece"]
)
def test_every_tokeniser_gives_the_text_back(text: Path, tmp_path: Path, tokeniser: object) -> None:
    task = LanguageModelTask.prepare(config(text, tokeniser=tokeniser), tmp_path)
    assert text_of(task.data.tokeniser, task.data.training.tokens.tolist()) == "\n" + "\n".join(LINES[:54]) + "\n"
    opened = LanguageModelTask.open(task.config, tmp_path)
    assert torch.equal(opened.batch(3).ids, task.batch(3).ids)
    generator = Generator(task.model, task.data.tokeniser)
    for prompt in ("", "line 5 says:", "line 1\nline", "line 1\n"):
        [result] = generator.generate(prompt, length=6)
        read = task.data.tokeniser.encode(prompt.split("\n")[-1])
        assert str(result) == prompt + result.text
        assert text_of(task.data.tokeniser, [*read, *result.hypothesis.tokens]) == prompt.split("\n")[-1] + result.text


def test_many_continuations_of_a_beam_are_its_hypotheses(task: LanguageModelTask) -> None:
    generator = Generator(task.model, task.data.tokeniser, BeamConfig(beam=3))
    best = generator.generate("line", config=BeamConfig(beam=3, num_best=3), length=8)
    assert len({each.text for each in best}) == 3
    for count in (1, 2, 3):
        assert [each.text for each in generator.generate("line", count=count, length=8)] == [
            each.text for each in best[:count]
        ]
    many = generator.generate(["line", "a"], count=2, length=8)
    assert many == [generator.generate("line", count=2, length=8), generator.generate("a", count=2, length=8)]
    for config, count, message in (
        (BeamConfig(beam=3), 4, "a beam of 3 keeps fewer"),
        (GreedyConfig(), 2, "greedy search has one"),
        (SampleConfig(), 0, "at least 1 continuation, got 0"),
    ):
        with pytest.raises(UsageError, match=message):
            generator.generate("line", config=config, count=count)
    with pytest.raises(UsageError, match="at least 1 token, got 0"):
        generator.generate("line", length=0)


def test_many_continuations_are_those_asked_for_one_by_one(task: LanguageModelTask) -> None:
    generator = Generator(task.model, task.data.tokeniser, SampleConfig(seed=5))
    together = generator.generate("line", count=3, length=8)
    alone = [each for first in range(3) for each in generator.generate("line", first=first, length=8)]
    assert [each.text for each in together] == [each.text for each in alone]
    assert all(len(each.hypothesis.tokens) == 8 for each in together)


def test_lines_end_a_continuation(task: LanguageModelTask) -> None:
    generator = Generator(task.model, task.data.tokeniser, SampleConfig(temperature=3.0))
    with torch.no_grad():
        task.model.embedding.weight[EOS] += 1.0  # ends come often, or never
    result = [generator.generate("a", count=20, length=20, lines=lines) for lines in (1, 2)]
    with torch.no_grad():
        task.model.embedding.weight[EOS] -= 1.0
    assert not any("\n" in each.text for each in result[0])
    assert all(each.text.count("\n") <= 1 for each in result[1])
    for lines in (0, -1):
        with pytest.raises(UsageError, match=f"at least 1 line, got {lines}"):
            generator.generate("a", length=4, lines=lines)


def test_a_prompt_without_room_for_more_is_refused(task: LanguageModelTask) -> None:
    generator = Generator(task.model, task.data.tokeniser)
    assert len(generator.generate("x" * 23)[0].hypothesis.tokens) == 1
    with pytest.raises(DataError, match="The prompt has 24 tokens"):
        generator.generate("x" * 24)


def test_a_recurrent_model_goes_on_beyond_any_length(text: Path, tmp_path: Path) -> None:
    model = RecurrentLanguageModelConfig(embedding_dim=4, hidden_dim=8)
    task = LanguageModelTask.prepare(config(text, model=model), tmp_path)
    [result] = Generator(task.model, task.data.tokeniser).generate("x" * 40, length=30)
    assert len(result.hypothesis.tokens) == 30


def test_texts_too_short_to_hold_out_from_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("one\ntwo\n")
    with pytest.raises(DataError, match="too few to hold some out"):
        LanguageModelTask.prepare(config(path), tmp_path / "run")


def test_blocks_longer_than_the_model_are_refused(text: Path) -> None:
    with pytest.raises(ValueError, match="24 positions"):
        config(text, data=TextConfig(text=str(text), block_length=25))


def test_sizes_follow_from_the_text(text: Path, tmp_path: Path) -> None:
    assert suggested(str(text), Allowance(), masked=False).settings["tokeniser"] == {"kind": "character"}
    other = tmp_path / "han.txt"
    other.write_text("".join(map(chr, range(0x4E00, 0x4E00 + 300))), encoding="utf-8")
    assert suggested(str(other), Allowance(), masked=False).settings["tokeniser"] == {"kind": "byte"}
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match="no text"):
        suggested(str(tmp_path / "empty.txt"), Allowance(), masked=False)


def test_context_tells_what_came_before_and_changes_no_count(task: LanguageModelTask) -> None:
    task.model.eval()
    generator = Generator(task.model, task.data.tokeniser, data=task.config.data)
    alone = generator.evaluate(LINES)
    tokens = tokens_of(LINES, task.data.tokeniser)
    whole = task.model.predicted(Batch.of([tokens]))
    for context in (1, 8, 15):
        cut = blocks_in_turn(tokens, 16, 4, context=context)
        request = [block.tokens[1 + block.known :] for batch in cut for block in batch]
        assert torch.equal(torch.from_numpy(np.concatenate(request)), whole)
        figures = generator.evaluate(LINES, context=context)
        assert figures.keys() == alone.keys()
        assert figures["loss"] != alone["loss"]
    with pytest.raises(UsageError, match="leaves nothing to predict: blocks have 16"):
        generator.evaluate(LINES, context=16)


@torch.no_grad()
def test_a_context_is_as_good_as_a_longer_block(task: LanguageModelTask) -> None:
    task.model.eval()
    lines, data = LINES[:1], replace(task.config.data, block_length=22)
    tokens = tokens_of(lines, task.data.tokeniser)
    expected = float(task.model.loss(Batch.of([tokens[:23]]))) / 22
    whole = score(task.model, tokens[:23], data, num_bytes=22)
    stepwise = score(task.model, tokens[:23], replace(data, block_length=21), num_bytes=22, context=20)
    assert whole["loss"] == pytest.approx(expected)
    last = float(task.model.loss(Batch.of([tokens[1:23]])) - task.model.loss(Batch.of([tokens[1:22]])))
    first = float(task.model.loss(Batch.of([tokens[:22]])))
    assert stepwise["loss"] == pytest.approx((first + last) / 22, rel=1e-5)


def test_bits_per_byte_compare_tokenisations(text: Path, tmp_path: Path) -> None:
    """A model that knows nothing pays log2 of its vocabulary for a token; bits per byte tell how long tokens are."""
    figures, lengths = {}, {}
    for name, tokeniser in (
        ("byte", ByteConfig()),
        ("character", CharacterConfig()),
        ("piece", SentencePieceConfig(vocab_size=300)),
    ):
        task = LanguageModelTask.prepare(config(text, tokeniser=tokeniser), tmp_path / name)
        with torch.no_grad():
            task.model.embedding.weight.zero_()  # tied: every token is as likely as any other
        figures[name] = Generator(task.model, task.data.tokeniser, data=task.config.data).evaluate(LINES)
        lengths[name] = len(tokens_of(LINES, task.data.tokeniser)) - 1, task.data.tokeniser.vocab_size
    num_bytes = sum(len(line.encode()) + 1 for line in LINES)
    for name, (tokens, vocab) in lengths.items():
        assert figures[name]["perplexity"] == pytest.approx(vocab, rel=1e-4)
        assert figures[name]["bits_per_byte"] == pytest.approx(tokens * math.log2(vocab) / num_bytes, rel=1e-4)
    assert lengths["byte"][0] == num_bytes
    assert lengths["character"][0] == sum(len(line) + 1 for line in LINES) < num_bytes
    assert lengths["piece"][0] < lengths["character"][0]
