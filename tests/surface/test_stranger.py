"""What a stranger adds works everywhere: a part of an attention, a model, a task, a modality.

Every addition is defined here, as somebody would write it who has read ARCHITECTURE.md and no other file, and takes as
many files as that page promises: one, or one for each layer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from foveate.attention import Attention, Plan, Positions, Softmax, Visibility, causal, padding, record
from foveate.attention.onnx import Graph, Places
from foveate.attention.score import ProductScore
from foveate.attention.visibility import EdgeList
from foveate.data.batch import Batch
from foveate.data.reader import Example, Reader
from foveate.data.row import Row
from foveate.decode import BeamConfig
from foveate.errors import UsageError
from foveate.export import onnx_refusals, save_onnx
from foveate.inspect import Trace, Track, read_trace, write_trace
from foveate.inspect.step import steps
from foveate.inspect.trace import conversion, observe, standalone
from foveate.models import FixedContextConfig, Seq2Seq
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.nn.embed import Input, embed, input_of
from foveate.nn.encoder import TransformerEncoderConfig
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.packing import Packing
from foveate.nn.pooling import MeanPoolingConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.classify.task import ClassifyConfig, ClassifyTask
from foveate.tasks.classify.use import classifier_of
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.translate.pair import DataConfig
from foveate.tasks.translate.task import TranslateConfig, TranslateTask
from foveate.tasks.translate.use import Translator
from foveate.train import TrainConfig, fit

HEADS, LENGTH, WIDTH = 2, 11, 6
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Of float32 sums in another order."""
STORED = {"rtol": 0.0, "atol": 5e-3}
"""Of weights from features that a trace keeps in float16."""


@dataclass(frozen=True)
class Journey:
    """What `through_everything` met on its way."""

    plan: Plan
    trace: Trace
    bytes_of_trace: int
    onnx: list[str]
    """Why there is no ONNX graph, in words; empty where there is one."""


def through_everything(attention: Attention, folder: Path, *, length: int = LENGTH) -> Journey:
    """Take an attention through all that the package does with one, and compare each answer with its definition."""
    at = Positions.of(length, length)
    model = nn.ModuleDict({"layer": nn.ModuleList([attention])}).eval()
    query, key, value = inputs = [torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3)]
    explained = attention.explain(query, key, value, at=at)
    _runs_and_has_gradients(attention, inputs, at, explained.context)

    with record(model) as records, torch.no_grad():
        attention.run(query, key, value, at=at)
    (kept,) = records
    torch.testing.assert_close(kept.weights(rows=slice(1, 4)), explained.weights[:, :, 1:4].detach(), **CLOSE)

    with observe(model) as seen, torch.no_grad():
        attention.run(query, key, value, at=at)
    trace = Trace.of(seen, {"source": Track.of_pieces([f"▁{place}" for place in range(length)])})
    written = read_trace(write_trace(trace, folder / "stranger.trace"))
    for head in range(HEADS):
        weights, visible = written.sites[0].weights(head)
        torch.testing.assert_close(weights, explained.weights[0, head].detach(), **STORED)
        if visible is not None:
            assert not weights[~visible].any()
    assert 'id="trace">' in standalone(written)
    *_, last = steps(written, 0, 0, length - 1)
    np.testing.assert_allclose(last.numbers, explained.context[0, 0, -1].detach(), atol=2e-2)
    size = sum(tensor.nbytes for tensor in written.sites[0].tensors.values())
    return Journey(attention.plan(query, key, at=at), written, size, exports(attention, folder))


def _runs_and_has_gradients(attention: Attention, inputs: list[Tensor], at: Positions, right: Tensor) -> None:
    context = attention.run(*inputs, at=at)
    torch.testing.assert_close(context, right, **CLOSE)
    learnt = [*inputs, *(weight for weight in attention.parameters() if weight.requires_grad)]
    towards = torch.randn_like(right)
    mine, definition = (torch.autograd.grad(each, learnt, towards, allow_unused=True) for each in (context, right))
    for one, other in zip(mine, definition, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def exports(attention: Attention, folder: Path) -> list[str]:
    """Why ONNX cannot have this attention as a layer of a classifier; empty where the graph gives the same logits."""
    block = BlockConfig(model_dim=HEADS * WIDTH, num_heads=HEADS, feedforward_dim=8)
    encoder = TransformerEncoderConfig(block=block, num_layers=1)
    model: Classifier = ClassifierConfig(
        encoder=encoder, embedding_dim=HEADS * WIDTH, pooling=MeanPoolingConfig(), dropout=0.0
    ).build(9, 2)
    (layer,) = (module for module in model.modules() if isinstance(module, MultiHeadAttention))
    layer.attention = attention
    reasons = onnx_refusals(model.eval())
    if reasons:
        return reasons
    save_onnx(model, folder / "onnx")
    tokens = torch.tensor([[1, 4, 5, 6, 7, 8, 2]])
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    fed = {"tokens": tokens.numpy(), "lengths": np.array([tokens.shape[1]])}
    (logits,) = session.run(["logits"], fed)
    with torch.no_grad():
        right = model(Batch(tokens, lengths=torch.tensor([tokens.shape[1]])))
    np.testing.assert_allclose(logits, right.numpy(), rtol=1e-4, atol=1e-5)
    return []


# ---- a score --------------------------------------------------------------------------------------------------------


class Bounded(ProductScore):
    """score(q, k) = tanh(q) · k"""

    def query_features(self, query: Tensor) -> Tensor:
        return query.tanh()


class Distance(nn.Module):
    """score(q, k) = −‖q − k‖: of no form that the package knows."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return -(query[..., :, None, :] - key[..., None, :, :]).square().sum(-1).add(1e-6).sqrt()


def test_a_product_score_is_fast_and_small_by_writing_one_class(tmp_path: Path) -> None:
    journey = through_everything(Attention(Bounded()), tmp_path)
    assert journey.plan.chosen != "materialised"
    assert journey.trace.sites[0].score["kind"] == "product"
    assert "Bounded has no method onnx" in " ".join(journey.onnx)


def test_a_product_score_is_looked_at_beyond_what_is_kept_pair_by_pair(tmp_path: Path) -> None:
    site = Attention(Bounded())
    with record(nn.ModuleDict({"layer": site})) as seen, torch.no_grad():
        site.run(*(torch.randn(1, 1, 4200, WIDTH) for _ in range(3)))
    (kept,) = Trace.of(seen).sites
    assert sum(tensor.nbytes for tensor in kept.tensors.values()) < 4200 * 100


def test_a_score_of_no_known_form_is_exact_everywhere(tmp_path: Path) -> None:
    journey = through_everything(Attention(Distance()), tmp_path)
    assert journey.trace.sites[0].score["kind"] == "dense"
    assert "its score is Distance" in " ".join(journey.onnx)


# ---- a visibility rule ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SameParity(Visibility):
    """A query sees the keys whose distance from it is even."""

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (at.query - at.key) % 2 == 0


def test_a_rule_is_drawn_combined_and_obeyed_by_writing_one_class(tmp_path: Path) -> None:
    assert SameParity().picture(2, 3).split() == ["#", ".", "#", ".", "#", "."]
    for rule in (SameParity(), SameParity() & causal(), ~SameParity()):
        journey = through_everything(Attention(visibility=rule), tmp_path)
        assert "SameParity" in " ".join(journey.onnx)


class WrittenParity(SameParity):
    """The same rule, with its ONNX operators."""

    def onnx(self, graph: Graph, places: Places) -> str:
        return graph.op("Equal", graph.op("Mod", places.distance(graph), graph.single(2)), graph.single(0))


@dataclass(frozen=True)
class Recent(Visibility):
    """A query sees itself and the three keys before it."""

    band = (3, 0)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (at.key <= at.query) & (at.key >= at.query - 3)


@dataclass(frozen=True)
class Ring(Visibility):
    """A node of a ring sees itself and the node before it."""

    size: int

    @property
    def graph(self) -> EdgeList:
        target = torch.arange(self.size)
        return EdgeList(torch.stack([(target - 1) % self.size, target]), self_loops=True)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (at.query == at.key) | ((at.query - 1) % self.size == at.key)


def test_a_rule_writes_its_own_operators(tmp_path: Path) -> None:
    for rule in (WrittenParity(), WrittenParity() & causal()):
        assert through_everything(Attention(visibility=rule), tmp_path).onnx == []


def test_a_rule_that_states_its_band_is_small_in_a_trace_and_needs_no_operators(tmp_path: Path) -> None:
    journey = through_everything(Attention(visibility=Recent() & padding()), tmp_path)
    assert journey.onnx == []
    assert journey.trace.sites[0].visibility["native"] == {"left": 3, "right": 0}
    assert "visible" not in journey.trace.sites[0].tensors


def test_a_rule_that_states_its_edges_is_a_graph(tmp_path: Path) -> None:
    journey = through_everything(Attention(visibility=Ring(LENGTH)), tmp_path)
    assert journey.trace.sites[0].kind == "graph"
    assert [path.reasons for path in journey.plan.paths if path.name == "edges"] == [()]


def test_a_trace_refuses_a_rule_that_it_can_neither_keep_nor_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "BITS", 100)
    site = Attention(visibility=SameParity())
    with record(site) as seen, torch.no_grad():
        site.run(*(torch.randn(1, 1, LENGTH, WIDTH) for _ in range(3)))
    with pytest.raises(UsageError, match=r"SameParity\(\) has to be stored pair by pair"):
        Trace.of(seen)


# ---- a bias ---------------------------------------------------------------------------------------------------------


class Favourite(nn.Module):
    """bias_ij = w · cos(i − j), with one weight"""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, at: Positions) -> Float[Tensor, "#batch #heads query key"]:
        return self.weight * (at.query - at.key).float().cos()


def test_a_bias_is_added_and_learnt_by_writing_one_class(tmp_path: Path) -> None:
    journey = through_everything(Attention(bias=Favourite(), visibility=causal()), tmp_path)
    assert "its bias is Favourite" in " ".join(journey.onnx)


class Slope(nn.Module):
    """bias_ij = w (j − i), which depends on the distance alone"""

    by_distance, symbol = True, "w·(j−i)"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.2))

    def forward(self, at: Positions) -> Float[Tensor, "#batch #heads query key"]:
        return self.weight * (at.key - at.query)

    def onnx(self, graph: Graph, places: Places) -> str:
        distance = graph.op("Cast", places.distance(graph), to=1)
        return graph.op("Unsqueeze", graph.op("Mul", distance, graph.weight(self.weight)), graph.whole(0))


@dataclass(frozen=True)
class Bell:
    """−(j − i)² / 2σ², by which weights are multiplied"""

    sigma: float

    def __call__(self, at: Positions) -> Float[Tensor, "#batch #heads query key"]:
        return (at.key - at.query) ** 2 / (-2 * self.sigma**2)

    def header(self) -> dict[str, object]:
        return {"kind": "gaussian", "sigma": self.sigma}


def test_a_bias_of_distances_is_a_table_in_a_trace_and_writes_its_operators(tmp_path: Path) -> None:
    journey = through_everything(Attention(bias=Slope()), tmp_path)
    assert journey.onnx == []
    (site,) = journey.trace.sites
    assert site.bias == {"kind": "distance", "first": 1 - LENGTH}
    assert "q·k / √6 + w·(j−i)" in site.formula


def test_a_reweighting_is_kept_as_the_header_that_it_states(tmp_path: Path) -> None:
    journey = through_everything(Attention(reweight=Bell(2.0)), tmp_path)
    assert journey.trace.sites[0].reweight == {"kind": "gaussian", "sigma": 2.0}
    assert "it has a reweighting" in " ".join(journey.onnx)


# ---- a normaliser ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SquaredSoftmax:
    """weights ∝ softmax(e)², which is softmax(2e)"""

    def __call__(self, scores: Tensor, visible: Tensor) -> Tensor:
        return Softmax(temperature=0.5)(scores, visible)

    def statistic(self, scores: Tensor, visible: Tensor) -> Tensor:
        return Softmax(temperature=0.5).statistic(scores, visible)

    def tile(self, scores: Tensor, visible: Tensor, statistic: Tensor, *, first: int = 0) -> Tensor:
        return Softmax(temperature=0.5).tile(scores, visible, statistic, first=first)


def test_a_normaliser_makes_the_weights_by_writing_one_class(tmp_path: Path) -> None:
    journey = through_everything(Attention(normaliser=SquaredSoftmax(), visibility=causal()), tmp_path)
    assert "SquaredSoftmax" in " ".join(journey.onnx)


class StatedSoftmax(SquaredSoftmax):
    """The same weights, with what kernels, traces and ONNX need to know about them."""

    softmax_temperature, symbol = 0.5, "softmax²"

    def header(self) -> dict[str, object]:
        return {"kind": "softmax", "temperature": 0.5}

    def onnx(self, graph: Graph, scores: str) -> str:
        return graph.op("Softmax", graph.op("Add", scores, scores), axis=-1)


def test_a_normaliser_that_states_its_formula_is_fast_and_small(tmp_path: Path) -> None:
    plain = through_everything(Attention(normaliser=SquaredSoftmax()), tmp_path)
    journey = through_everything(Attention(normaliser=StatedSoftmax()), tmp_path)
    assert plain.trace.sites[0].score["kind"] == "dense"
    assert [path.reasons for path in journey.plan.paths if path.name == "sdpa"] == [()]
    assert journey.trace.sites[0].score["kind"] == "product"
    assert journey.trace.sites[0].formula == "softmax²(q·k / √6)"
    assert journey.onnx == []


# ---- a transform ----------------------------------------------------------------------------------------------------


class Louder:
    """q ← q (1 + i / 10), k ← 2 k"""

    def query(self, query: Tensor, at: Positions) -> Tensor:
        return query * (1 + at.query / 10)

    def key(self, key: Tensor, at: Positions) -> Tensor:
        return 2 * key


class WrittenLouder(Louder):
    """The same, with its ONNX operators."""

    def onnx(self, graph: Graph, x: str, places: Places, *, side: str, head_dim: int) -> str:
        if side == "key":
            return graph.op("Add", x, x)
        share = graph.op("Mul", graph.op("Cast", places.query, to=1), graph.number(0.1))
        return graph.op("Mul", x, graph.op("Unsqueeze", graph.op("Add", share, graph.number(1.0)), graph.whole(1)))


def test_a_transform_changes_queries_and_keys_by_writing_one_class(tmp_path: Path) -> None:
    journey = through_everything(Attention(transforms=[Louder()]), tmp_path)
    assert journey.trace.sites[0].score["kind"] == "product"
    assert "its queries pass Louder, which has no method `onnx`" in " ".join(journey.onnx)
    assert through_everything(Attention(transforms=[WrittenLouder()]), tmp_path).onnx == []


# ---- a modality -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notes:
    """Pitches and durations: what a model of melodies is built from."""

    width, axes = 2, None

    def build(self, dim: int, *, deviation: float | None = None) -> nn.Module:
        return NoteEmbedding(dim)


class NoteEmbedding(nn.Module):
    """A vector for each of the twelve pitch classes, and one times the duration."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.pitch, self.duration = nn.Embedding(12, dim), nn.Linear(1, dim)

    def forward(self, values: Tensor, places: Tensor | None = None) -> Tensor:
        return self.pitch(values[..., 0].long() % 12) + self.duration(values[..., 1:])


@dataclass(frozen=True, kw_only=True)
class MelodyReader(Reader):
    """Lines of pitch/duration, a tab and a label: `60/1 64/1 67/2<tab>major`. Reads like any reader."""

    what = "melodies"

    def read(self, path: str) -> Iterator[Example]:
        for line, text in enumerate(Path(path).read_text().splitlines(), start=1):
            melody, label = text.split("\t")
            yield Example(line, melody, label)

    def learn(self, examples: Iterable[Example]) -> "MelodyRows":
        return MelodyRows()

    def open(self, folder: Path) -> "MelodyRows":
        return MelodyRows()


class MelodyRows:
    """A note, a vector."""

    input = Notes()

    def row(self, thing: str) -> Row:
        return Row(np.array([note.split("/") for note in thing.split()], dtype=np.float32))

    def unknown(self, row: Row) -> int:
        return 0

    def track(self, thing: str) -> dict[str, object]:
        return {"labels": tuple(thing.split()), "kind": "frames"}

    def things(self, path: str) -> Iterator[str]:
        return iter(Path(path).read_text().splitlines())

    def save(self, folder: Path) -> None:
        """There is nothing to keep."""

    def digests(self) -> dict[str, str]:
        return {}


def test_a_modality_is_a_reader_and_an_embedding(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    chords = {"major": (0, 4, 7), "minor": (0, 3, 7)}
    melodies = [
        (" ".join(f"{60 + note}/{beats}" for note, beats in zip(chord, generator.integers(1, 4, 3), strict=True)), name)
        for name, chord in chords.items()
        for _ in range(20)
    ]
    (tmp_path / "melodies.tsv").write_text("".join(f"{melody}\t{label}\n" for melody, label in melodies))
    block = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=16, dropout=0.0)
    config = ClassifyConfig(
        reader=MelodyReader(),
        data=LabelledDataConfig(data=str(tmp_path / "melodies.tsv"), max_tokens=512),
        model=ClassifierConfig(encoder=TransformerEncoderConfig(block=block, num_layers=1), embedding_dim=16),
    )
    run = tmp_path / "run"
    task, reports = ClassifyTask.prepare(config, run)
    assert str(reports["train"]) == "All 36 melodies are used."
    fit(task, TrainConfig(steps=30, validate_every=30, save_every=30, learning_rate=1e-2), run)
    with torch.inference_mode():
        assert task.validate()["accuracy"] == 1.0

    classifier = classifier_of(task.model, task.rows, task.labels)
    answers = classifier.classify(["60/1 64/2 67/1", "67/3 63/1 60/1"])
    assert [answer.label for answer in answers] == ["major", "minor"]
    trace = read_trace(write_trace(classifier.trace("60/1 64/2 67/1"), tmp_path / "trace"))
    assert trace.tracks["source"].labels == ("60/1", "64/2", "67/1")
    assert {site.kind for site in trace.sites} == {"self", "cross"}
    assert standalone(trace).startswith("<!doctype html>")


# ---- a model --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PointerConfig(FixedContextConfig):
    """Words and places, and one attention: the smallest model that can copy."""

    def build(self, source_vocab: int | Input, target_vocab: int) -> "Pointer":  # type: ignore[override]
        return Pointer(self.embedding_dim, source_vocab, target_vocab)


@dataclass(frozen=True)
class PointerState:
    memory: Tensor
    lengths: Tensor
    time: int


class Pointer(Seq2Seq[PointerState]):
    """c_t = attention(p_t; k_j = p_j, v_j = E x_j);  p(y_t) = softmax(W [c_t; E y_{t−1}])"""

    def __init__(self, dim: int, source: int | Input, vocab: int) -> None:
        super().__init__()
        self.source, self.target = input_of(source).build(dim), nn.Embedding(vocab, dim)
        self.place, self.output = nn.Embedding(32, dim), nn.Linear(2 * dim, vocab)
        self.attention = Attention(visibility=padding(), kind="cross")

    def look(self, memory: Tensor, lengths: Tensor, words: Tensor, start: int) -> Tensor:
        keys, count = self.place.weight[: memory.shape[1]].expand(len(memory), 1, -1, -1), words.shape[1]
        queries = self.place.weight[start : start + count].expand(len(memory), 1, -1, -1)
        at = Positions.of(count, memory.shape[1], query_start=start, key_lengths=lengths)
        context = self.attention.run(queries, keys, memory[:, None], at=at)[:, 0]
        return self.output(torch.cat([context, self.target(words)], -1))

    def forward(self, source: Batch, target: Batch) -> Tensor:
        read = target.ids[:, :-1]
        logits = self.look(embed(self.source, source.values, source.places), source.lengths, read, 0)
        return Packing(target.lengths - 1, read.shape[1]).pack(logits)

    def start(self, source: Batch, beam: int = 1) -> PointerState:
        rows = torch.arange(source.size).repeat_interleave(beam)
        return PointerState(embed(self.source, source.values, source.places)[rows], source.lengths[rows], 0)

    def step(self, state: PointerState, token: Tensor) -> tuple[PointerState, Tensor]:
        logits = self.look(state.memory, state.lengths, token[:, None], state.time)[:, 0]
        return PointerState(state.memory, state.lengths, state.time + 1), logits

    def select(self, state: PointerState, rows: Tensor) -> PointerState:
        return PointerState(state.memory[rows], state.lengths[rows], state.time)


def test_a_model_is_one_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines = ["".join(generator.choice(list("abcde"), 3 + number % 3)) for number in range(60)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    config = TranslateConfig(
        data=DataConfig(source=str(tmp_path / "pairs.tsv")),
        model=PointerConfig(embedding_dim=24),
        decode=BeamConfig(beam=2),
        label_smoothing=0.0,
    )
    run = tmp_path / "run"
    task, _ = TranslateTask.prepare(config, run)
    fit(task, TrainConfig(steps=150, validate_every=150, save_every=150, learning_rate=2e-2), run)
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
    assert [one.text for one in translator.translate(["abcd", "eda"])] == ["ABCD", "EDA"]
    trace = read_trace(write_trace(translator.trace("abcd"), tmp_path / "trace"))
    (site,) = trace.sites
    assert (site.kind, site.queries, site.keys) == ("cross", 5, 5)
    assert site.weights(0)[0].argmax(-1).tolist() == [0, 1, 2, 3, 4]
