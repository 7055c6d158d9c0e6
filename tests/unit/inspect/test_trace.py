"""Traces on disk and in memory: whole or refused, small, selected, and embedded in a page."""

import json
import re
import struct
import threading
import zlib
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from foveate.attention import (
    AdditiveConfig,
    Attention,
    AttentionConfig,
    GeneralConfig,
    LocationConfig,
    Positions,
    Rotary,
    bigbird,
    causal,
    padding,
    predicate,
    record,
)
from foveate.attention.efficient.linformer import LinformerAttention
from foveate.attention.score import Additive
from foveate.data.graph import Graph
from foveate.data.graph_batch import GraphBatch
from foveate.errors import DataError, SetupError, UsageError
from foveate.inspect.step import steps
from foveate.inspect.tile import TraceProvider
from foveate.inspect.trace import Trace, Track, given, observe, read_trace, standalone, trace_writer, write_trace
from foveate.inspect.trace import html as page_module
from foveate.inspect.trace.html import packed
from foveate.inspect.trace.trace import Pedigree
from foveate.models.graph_encoder import GraphAttentionConfig
from foveate.nn import MultiHeadAttention

LABELS = ["▁a", "b", "▁c.", "▁d", "▁e"]


class Layers(torch.nn.Module):
    """Two layers of self-attention, four query heads on two key heads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Attention(visibility=causal(), transforms=[Rotary()]) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer.run(x, x[:, :2], x[:, :2])
        return x


@pytest.fixture
def model() -> Layers:
    return Layers()


@pytest.fixture
def trace(model: Layers) -> Trace:
    with observe(model) as recording:
        model(torch.randn(1, 4, 5, 8))
    return Trace.of(recording, {"source": Track.of_pieces(LABELS, text="ab c. d e")})


def test_a_trace_is_read_as_it_was_written(trace: Trace, tmp_path: Path) -> None:
    again = read_trace(write_trace(trace, tmp_path / "a.trace"))
    assert again.header() == trace.header()
    for mine, right in zip(again.sites, trace.sites, strict=True):
        assert mine.tensors.keys() == right.tensors.keys()
        assert all(torch.equal(mine.tensors[name], right.tensors[name]) for name in right.tensors)


def test_sites_are_written_one_after_the_other(trace: Trace, tmp_path: Path) -> None:
    with trace_writer(tmp_path / "a.trace", trace.tracks) as writer:
        writer.add(trace.sites[0])
        assert [path.name for path in writer.folder.iterdir()] == ["site-000.safetensors"]
        writer.add(trace.sites[1])
    assert [site.name for site in read_trace(tmp_path / "a.trace").sites] == ["layers.0", "layers.1"]


def test_files_beside_those_of_an_earlier_trace_are_kept(trace: Trace, tmp_path: Path) -> None:
    folder = write_trace(trace, tmp_path / "a.trace")
    write_trace(trace, folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"also holds notes\.txt, which would be deleted"):
        write_trace(trace, folder)
    (folder / "MANIFEST").unlink()
    with pytest.raises(UsageError, match=r"also holds notes\.txt, which would be deleted"):
        write_trace(trace, folder)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    assert len(read_trace(write_trace(trace, folder)).sites) == len(trace.sites)


def test_nothing_but_an_earlier_trace_is_replaced(trace: Trace, tmp_path: Path) -> None:
    letter = tmp_path / "letters" / "mine.txt"
    letter.parent.mkdir()
    letter.write_text("dear")
    for path in (letter, letter.parent, Path("/dev/null")):
        with pytest.raises(UsageError, match=f"{path} exists and is not an earlier trace. Name another folder"):
            write_trace(trace, path)
    assert letter.read_text() == "dear"
    of_another_program = letter.rename(letter.parent / "trace.json")
    of_another_program.write_text('{"traceEvents": []}')
    with pytest.raises(UsageError, match="letters exists and is not an earlier trace"):
        write_trace(trace, letter.parent)
    assert of_another_program.read_text() == '{"traceEvents": []}'
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        assert len(read_trace(write_trace(trace, tmp_path / "empty")).sites) == len(trace.sites)


def test_a_writer_that_fails_leaves_nothing(trace: Trace, tmp_path: Path) -> None:
    other = Trace(tracks={"source": Track.numbered(2)}, sites=(given(torch.eye(2)[None]),))
    with trace_writer(tmp_path / "a.trace", other.tracks) as writer, pytest.raises(UsageError):
        writer.add(trace.sites[0])
    with pytest.raises(SetupError), trace_writer(tmp_path / "b.trace", other.tracks):
        raise OSError(28, "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["a.trace"]


@pytest.mark.parametrize("name", ["trace.json", "site-001.safetensors", "MANIFEST"])
def test_one_changed_bit_is_refused(trace: Trace, tmp_path: Path, name: str) -> None:
    path = write_trace(trace, tmp_path / "a.trace") / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_trace(tmp_path / "a.trace")


def test_a_missing_file_is_refused_by_name(trace: Trace, tmp_path: Path) -> None:
    folder = write_trace(trace, tmp_path / "a.trace")
    (folder / "site-000.safetensors").unlink()
    with pytest.raises(DataError, match=r"site-000\.safetensors is missing"):
        read_trace(folder)


def test_another_version_is_refused_with_a_way_out(trace: Trace, tmp_path: Path) -> None:
    path = write_trace(trace, tmp_path / "a.trace") / "trace.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 3'))
    with pytest.raises(DataError, match=r"has trace version 3, but this version of foveate reads 1 and 2\. Install"):
        read_trace(tmp_path / "a.trace")
    with pytest.raises(DataError, match=r"is not a trace: it has no trace\.json"):
        read_trace(tmp_path)


def test_recording_measures_explain_against_run_and_the_rounding(trace: Trace) -> None:
    assert trace.pedigree.difference is not None
    assert trace.pedigree.rounding is not None
    assert trace.pedigree.difference < 1e-6
    assert 0 < trace.pedigree.rounding < 2e-3


@pytest.mark.parametrize(
    "score",
    [GeneralConfig(), AdditiveConfig(hidden_dim=3), LocationConfig(max_length=9)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_scores_with_weights_are_traced_in_inference_and_with_shared_keys(score: Any, kv_heads: int) -> None:
    layer = MultiHeadAttention(query_dim=32, num_heads=4, num_kv_heads=kv_heads, attention=AttentionConfig(score=score))
    x = torch.randn(1, 5, 32)
    with record(layer) as recording, torch.inference_mode():
        layer(x)
    (site,) = Trace.of(recording, stored="float32").sites
    with torch.no_grad():
        weights = layer.explain(x).weights[0]
    for head in range(4):
        torch.testing.assert_close(site.weights(head)[0], weights[head], rtol=1e-4, atol=1e-5)


def test_observing_changes_no_answer_and_leaves_no_trace_in_the_model(model: Layers) -> None:
    x = torch.randn(1, 4, 5, 8)
    plain = model(x)
    with observe(model):
        assert torch.equal(model(x), plain)
    assert "run" not in vars(model.layers[0])


def test_observations_may_stand_within_one_another(model: Layers) -> None:
    x = torch.randn(1, 4, 5, 8)
    with observe(model) as outer:
        with observe(model) as inner:
            model(x)
        model(x)
    assert [len(inner.values), len(outer.values)] == [2, len(outer.recording.records)]
    assert not any("run" in vars(module) for module in model.modules())


def test_a_call_belongs_to_the_innermost_observation_alone(model: Layers) -> None:
    first, second = torch.randn(2, 1, 4, 5, 8)
    with observe(model) as alone:
        model(first)
    with observe(model) as outer:
        model(first)
        with observe(model):
            model(second)
        with record(model):
            model(second)
    for ours, theirs in zip(outer, alone, strict=True):
        assert torch.equal(outer.values[id(ours)], alone.values[id(theirs)])


def test_observations_of_several_threads_may_end_in_any_order(model: Layers) -> None:
    def observed(x: torch.Tensor, before: threading.Barrier, after: threading.Event, done: threading.Event) -> list:
        with observe(model) as observation:
            before.wait()
            model(x)
            after.wait()
        done.set()
        return [observation.values[id(each)] for each in observation]

    inputs, both = torch.randn(2, 1, 4, 5, 8), threading.Barrier(2)
    at_once, first_ended, last_ended = (threading.Event() for _ in range(3))
    at_once.set()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(observed, inputs[0], both, at_once, first_ended)
        last = pool.submit(observed, inputs[1], both, first_ended, last_ended)
        for x, values in zip(inputs, (first.result(), last.result()), strict=True):
            assert len(values) == 2
            assert torch.equal(values[0], x[:, :2])
    assert not any("run" in vars(module) for module in model.modules())


def test_an_error_beside_an_inner_observation_is_the_user_s_own(model: Layers) -> None:
    def broken() -> None:
        with observe(model):
            model(torch.randn(1, 4, 5, 8))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), observe(model):
        broken()


def test_a_wrapper_that_a_user_puts_on_an_observed_run_stays(model: Layers) -> None:
    x, site = torch.randn(1, 4, 5, 8), model.layers[0]
    plain = model(x)
    with observe(model) as observation:
        inner = site.run
        site.run = lambda *inputs, **keywords: 2 * inner(*inputs, **keywords)
        model(x)
    assert len(observation.values) == 2
    assert "run" not in vars(model.layers[1])
    assert not torch.equal(model(x), plain)
    del site.run
    assert torch.equal(model(x), plain)


def test_observing_a_model_over_a_graph_sees_its_edges_alone_and_changes_no_answer() -> None:
    graph = Graph(features=np.random.default_rng(0).random((5, 3)), edges=np.array([[0, 1, 2], [1, 2, 3]]))
    batch, model = GraphBatch.of([graph]), GraphAttentionConfig(head_dim=2).build(3, 2).eval()
    with torch.no_grad():
        answer = model(batch)
        with observe(model) as observation:
            assert torch.equal(model(batch), answer)
    trace = Trace.of(observation, {"nodes": Track.of_nodes("abcde", batch.edges)})
    assert [(site.kind, site.layer, site.heads) for site in trace.sites] == [("graph", 0, 8), ("graph", 1, 1)]
    _, visible = trace.sites[0].weights(0)
    assert visible is not None
    rows = ["".join("#" if pair else "." for pair in row) for row in visible.tolist()]
    assert rows == ["##...", "###..", ".###.", "..##.", "....#"]
    assert trace.pedigree.difference == pytest.approx(0, abs=1e-6)
    assert not [module for module in model.modules() if "run" in vars(module)]


def test_features_are_kept_in_16_bits_with_values_and_the_statistic_of_what_is_kept(trace: Trace) -> None:
    site = trace.sites[1]
    kinds = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in site.tensors.items()}
    assert kinds["query"] == (torch.float16, (4, 5, 8))
    assert kinds["key"] == kinds["value"] == (torch.float16, (2, 5, 8))
    assert site.layer == 1
    assert site.visibility == {"code": "causal()", "native": {"left": None, "right": 0}}
    assert torch.allclose(site.weights(3)[0].sum(1), torch.ones(5), atol=1e-6)


def test_values_too_large_for_16_bits_are_kept_in_32() -> None:
    value = torch.tensor([[[[1e5, 1.0], [-7e4, 2.0]]]])
    with observe(site := Attention()) as recording:
        context = site.run(torch.eye(2)[None, None], torch.eye(2)[None, None], value)
    trace = Trace.of(recording)
    assert torch.equal(trace.sites[0].tensors["value"], value[0])
    (numbers,) = [step.numbers for step in steps(trace, 0, 0, 1) if step.symbol.startswith("c")]
    assert np.allclose(np.array(numbers, dtype=float), context[0, 0, 1], rtol=1e-3)


@pytest.mark.parametrize(("number", "text"), [(torch.nan, "NaN"), (torch.inf, "Infinity")])
def test_a_difference_that_is_not_finite_is_written_as_text_and_read_again(
    built: None, tmp_path: Path, number: float, text: str
) -> None:
    configuration = {"window": [-torch.inf, 2], "of": {"scale": number}}
    pedigree = Pedigree(difference=number, rounding=0.5, configuration=configuration)
    trace = Trace(tracks={"source": Track.numbered(2)}, sites=(given(torch.eye(2)[None]),), pedigree=pedigree)
    read = read_trace(write_trace(trace, tmp_path / "a.trace")).pedigree
    assert (str(read.difference), read.rounding) == (str(number), 0.5)
    written = unpacked(packed(trace))[0]["trace"]["pedigree"]
    assert written["difference"] == text
    assert written["configuration"] == {"window": ["-Infinity", 2], "of": {"scale": text}}
    assert "<iframe" in trace._repr_html_()


def test_a_value_of_nan_makes_the_difference_nan() -> None:
    model = Layers()
    value = torch.ones(1, 4, 5, 8)
    value[0, 0, 2, 1] = torch.nan
    with observe(model) as recording:
        for layer in model.layers:
            layer.run(torch.ones(1, 4, 5, 8), torch.ones(1, 4, 5, 8), value)
            value = torch.ones(1, 4, 5, 8)
    assert np.isnan(Trace.of(recording, {"source": Track.of_pieces(LABELS)}).pedigree.difference)


def test_half_of_a_character_is_shown_and_stored(built: None, tmp_path: Path) -> None:
    track = Track(labels=("\ud83d", "b"), text="\ud83d b")
    trace = Trace(tracks={"source": track}, sites=(given(torch.eye(2)[None]),))
    assert read_trace(write_trace(trace, tmp_path / "a.trace")).tracks["source"].labels == ("�", "b")
    assert unpacked(packed(trace))[0]["trace"]["sequences"]["source"]["labels"] == ["�", "b"]
    assert "<title>� b</title>" in standalone(trace).encode().decode()
    assert "<iframe" in trace._repr_html_()


def test_the_pedigree_names_int8(model: Layers) -> None:
    model.scale = torch.nn.Parameter(torch.ones(()))
    assert Pedigree.of(model).dtype == "float32"
    model.int8 = True
    assert Pedigree.of(model).dtype == "int8"


def test_layers_heads_and_rows_are_selected(trace: Trace) -> None:
    part = trace.select(layers=[1], heads=[3, 0], rows=slice(2, 4))
    assert [site.name for site in part.sites] == ["layers.1"]
    assert part.tracks["source (part)"].labels == ("▁c.", "▁d")
    for place, head in enumerate((3, 0)):
        expected = trace.sites[1].weights(head)[0][2:4]
        assert torch.equal(part.sites[0].weights(place)[0], expected)
    with pytest.raises(UsageError, match="has 4 heads, counted from 0"):
        trace.select(heads=[4])
    with pytest.raises(UsageError, match=r"There is no attention 'x'.*layers\.0, layers\.1"):
        trace["x"]


def test_some_rows_have_no_links_of_words(trace: Trace) -> None:
    linked = replace(trace, gold=((0, 0), (1, 2)))
    assert linked.select(heads=[0]).gold == linked.gold
    assert linked.select(rows=slice(2, 4)).gold is None


def test_padding_of_a_batch_is_cut_off_by_the_labels() -> None:
    site = Attention(visibility=padding())
    at = Positions.of(5, 5, key_lengths=torch.tensor([5, 3]))
    with record(site) as recording:
        site.run(x := torch.randn(2, 1, 5, 4), x, x, at=at)
    trace = Trace.of(recording, {"source": Track.of_pieces(LABELS[:3])}, example=1, stored="float32")
    assert "real" not in trace.sites[0].tensors
    assert torch.allclose(trace.sites[0].weights(0)[0], recording.records[0].weights()[1, 0, :3, :3], atol=1e-6)


def test_labels_of_another_text_are_refused() -> None:
    site = Attention()
    with record(site) as recording:
        site.run(x := torch.randn(1, 1, 5, 4), x, x)
    with pytest.raises(UsageError, match=r"has 5 positions along 'source', which has 7 labels"):
        Trace.of(recording, {"source": Track.numbered(7)})


def test_what_is_too_large_for_16_bits_is_refused_with_a_way_out() -> None:
    site = Attention()
    with record(site) as recording:
        site.run(torch.full((1, 1, 2, 2), 1e6), key := torch.full((1, 1, 2, 2), 1e-6), key)
    with pytest.raises(UsageError, match='Record with stored="float32"'):
        Trace.of(recording)
    assert torch.isfinite(Trace.of(recording, stored="float32").sites[0].weights(0)[0]).all()


def test_scores_too_large_for_one_number_a_row_are_refused() -> None:
    with record(site := Attention()) as recording:
        site.run(x := torch.full((1, 1, 2, 2), 1e6), x, x)
    with pytest.raises(UsageError, match="sum to 2, where they must sum to 1"):
        Trace.of(recording, stored="float32")


def test_a_row_that_does_not_sum_to_one_is_refused_at_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    from foveate.inspect.trace import trace as module

    def shifted(*tensors: Any, **named: Any) -> Any:
        site = right(*tensors, **named)
        return site.with_statistic(site.tensors["statistic"] + 0.1)

    right = module.site_of
    monkeypatch.setattr(module, "site_of", shifted)
    with record(attention := Attention(visibility=causal())) as recording:
        attention.run(x := torch.randn(1, 1, 9, 4), x, x)
    with pytest.raises(UsageError, match=r"head 0: the weights of query 0 sum to 0.9048, where they must sum to 1"):
        Trace.of(recording)


def test_a_rule_of_ones_own_is_kept_as_bits() -> None:
    site = Attention(visibility=causal() & predicate(lambda at: at.key % 2 == 0))
    with record(site) as recording:
        site.run(x := torch.randn(1, 1, 9, 4), x, x)
    here = Trace.of(recording).sites[0]
    assert here.tensors["visible"].shape == (1, 9, 2)
    _, visible = here.weights(0)
    assert visible is not None
    assert torch.equal(visible, torch.tensor([[j <= i and j % 2 == 0 for j in range(9)] for i in range(9)]))


def test_a_rule_over_a_large_map_is_evaluated_and_no_page_claims_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from foveate.inspect.trace import conversion

    monkeypatch.setattr(conversion, "BITS", 100)
    site = Attention(visibility=bigbird(block=4))
    with record(site) as recording:
        site.run(x := torch.randn(1, 1, 40, 4), x, x)
    trace = Trace.of(recording, stored="float32")
    assert "visible" not in trace.sites[0].tensors
    weights = recording.records[0].weights()[0, 0]
    assert np.allclose(TraceProvider(trace).row(0, 0, 17), weights[17], atol=1e-6)
    assert torch.allclose(trace.sites[0].weights(0)[0], weights, atol=1e-6)
    with pytest.raises(UsageError, match="a page by itself cannot evaluate it"):
        standalone(trace)
    own = Attention(visibility=predicate(lambda at: at.key <= at.query))
    with record(own) as recording:
        own.run(x, x, x)
    with pytest.raises(UsageError, match="has to be stored pair by pair"):
        Trace.of(recording)


def test_mechanisms_with_another_formula_are_shown_as_projected() -> None:
    model = torch.nn.ModuleList([LinformerAttention(max_length=8, projected_length=3)])
    with observe(model) as recording:
        model[0].run(x := torch.randn(1, 1, 5, 4), x, x)  # type: ignore[operator]
    trace = Trace.of(recording, {"source": Track.of_pieces(LABELS)})
    assert trace.sites[0].shows == "projected"
    assert trace.sites[0].keys == 3
    assert trace.tracks[trace.sites[0].key].labels == ("mixture 0", "mixture 1", "mixture 2")


def test_memory_of_additive_attention_is_that_of_its_projections() -> None:
    site = Attention(Additive(query_dim=3, key_dim=6, hidden_dim=4), kind="cross")
    with record(site) as recording, torch.no_grad():
        site.run(torch.randn(1, 1, 2, 3), k := torch.randn(1, 1, 7, 6), k)
    here = Trace.of(recording).sites[0]
    assert here.tensors["query"].shape == (1, 2, 4)
    assert here.tensors["key"].shape == (1, 7, 4)


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in page_module.PARTS:
        ends = "</style>" if name.endswith("css") else "</script>"
        (tmp_path / name).write_text(f"/* {name} '{ends}' */")
    (tmp_path / "index.html").write_text(
        f"<!DOCTYPE html><head><title>x</title>{page_module.LINK}</head><body><div id=foveate></div>"
        f"{page_module.SCRIPT}</body>"
    )
    monkeypatch.setattr(page_module, "static_folder", lambda: tmp_path)


def unpacked(content: bytes) -> tuple[dict, bytes]:
    body = zlib.decompress(content, -15)
    (length,) = struct.unpack_from("<I", body)
    return json.loads(body[4 : 4 + length]), body[4 + length :]


def test_the_packed_trace_holds_every_tensor_at_a_multiple_of_eight(trace: Trace) -> None:
    header, body = unpacked(packed(trace))
    assert header["trace"] == trace.header()
    kinds = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
    for entry in header["tensors"]:
        assert entry["offset"] % 8 == 0
        raw = body[entry["offset"] : entry["offset"] + entry["length"]]
        array = np.frombuffer(raw, kinds[entry["dtype"]]).reshape(entry["shape"])
        assert np.array_equal(array, trace.sites[entry["site"]].tensors[entry["name"]].numpy())


def test_no_label_becomes_markup_of_the_page(built: None) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    trace = Trace(tracks={"source": Track(labels=(evil, "b"))}, sites=(given(torch.eye(2)[None]),))
    html = standalone(trace, title=evil)
    assert "<img" not in html
    assert (html.count("</script>"), html.count("</style>")) == (4, 1)
    (content,) = re.findall(r'id="trace">([^<]*)</script>', html)
    assert unpacked(b64decode(content))[0]["trace"]["sequences"]["source"]["labels"][0] == evil


def test_a_page_asks_nothing_of_any_host(built: None, trace: Trace) -> None:
    html = standalone(trace)
    assert "http" not in html.replace("http-equiv", "")
    assert "default-src 'none'" in html


def test_steps_of_a_label_with_control_characters_are_an_image(model: Layers, tmp_path: Path) -> None:
    with observe(model) as recording:
        model(torch.randn(1, 4, 5, 8))
    labels = ["a", "\x1b[31m", "\x01\ufffe", "\u202e", "e"]
    trace = Trace.of(recording, {"source": Track.of_pieces(labels)})
    for query in (1, 2, 3):
        drawn = steps(trace, 0, 0, query)
        drawn.save(tmp_path / "s.svg")
        ElementTree.parse(tmp_path / "s.svg")
        assert all(letter.isprintable() or letter == "\n" for letter in str(drawn))


def test_a_notebook_shows_the_page_in_a_frame_that_may_only_run_scripts(built: None, trace: Trace) -> None:
    html = trace._repr_html_()
    assert html.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!DOCTYPE html&gt;')
    assert repr(trace) == "Trace(2 sites; source: 5)"


def test_a_viewer_that_is_not_built_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trace: Trace) -> None:
    monkeypatch.setattr(page_module, "static_folder", lambda: tmp_path)
    with pytest.raises(SetupError, match="The viewer is not built"):
        standalone(trace)


def opened(*names: str, opens: tuple[str, int | None] | None = None) -> Trace:
    maps = torch.full((2, 3, 3), 1 / 3)
    sites = tuple(given(maps, name=name, kind="cross" if "cross" in name else "self") for name in names)
    return Trace(tracks={"source": Track.numbered(3)}, sites=sites, opens=opens)


def test_a_site_has_one_name_and_its_dotted_one_serves_as_well() -> None:
    trace = opened("decoder.0.cross_attention.attention", "decoder.1.cross_attention.attention", "attention", "weights")
    assert [site.title for site in trace.sites] == [
        "decoder.0.cross_attention", "decoder.1.cross_attention", "attention", "weights",
    ]  # fmt: skip
    for called in ("decoder.1.cross_attention", "decoder.1.cross_attention.attention"):
        assert trace.index(called) == 1
        assert steps(trace, called, 0, 0)[-1].numbers == steps(trace, 1, 0, 0)[-1].numbers
    with pytest.raises(
        UsageError, match=r"Choose one of: decoder\.0\.cross_attention, decoder\.1\.cross_attention, att"
    ):
        trace.index("encoder")


def test_an_exact_name_goes_before_a_title() -> None:
    assert opened("a", "a.attention").index("a") == 0
    assert opened("a.attention", "a").index("a.attention") == 0


def test_every_door_opens_at_one_place_which_a_stored_trace_remembers(tmp_path: Path) -> None:
    names = ("encoder.0.self", "decoder.0.cross", "decoder.1.cross", "decoder.2.cross")
    assert opened(*names).opening == (2, None)
    assert opened("encoder.0.self").opening == (0, None)
    answer = opened(*names, opens=("decoder.0.cross", 1))
    assert answer.opening == (1, 1)
    again = read_trace(write_trace(answer, tmp_path / "kept.trace"))
    assert (again.opens, again.opening) == (("decoder.0.cross", 1), (1, 1))
    assert {"opens", "view"}.isdisjoint(opened(*names).header())
    steps = read_trace(write_trace(replace(answer, view="view=steps&query=2"), tmp_path / "steps.trace"))
    assert steps.view == steps.header()["view"] == "view=steps&query=2"
    assert answer.select(heads=[1]).opening == (1, 0)
    assert answer.select(heads=[0]).opening == (1, None)
    assert answer.select(sites=[3]).opening == (0, None)
    with pytest.raises(UsageError, match="no attention to look at"):
        opened().opening  # noqa: B018


def test_an_alignment_that_is_not_an_attention_is_a_site_of_its_own(tmp_path: Path) -> None:
    tracks = {"source": Track.of_frames(4, hop=0.1), "target": Track(labels=("a", "b"))}
    attention = given(torch.full((1, 2, 4), 0.25), name="decoder.0.cross", kind="cross", tracks=("target", "source"))
    weights = torch.tensor([[[0.0, 1.5, 0.5, 0.0], [0.0, 0.0, 0.25, 0.75]]])
    occupation = given(weights, name="ctc", kind="cross", tracks=("target", "source"), posterior=True)
    path = write_trace(Trace(tracks=tracks, sites=(attention, attention, occupation)), tmp_path / "a.trace")
    again = read_trace(path)
    assert [site.posterior for site in again.sites] == [False, False, True]
    assert torch.equal(again["ctc"].weights(0)[0], weights[0])
    assert again.opening == (0, None)
    assert again.select(sites=["ctc"]).opening == (0, None)
    headers = json.loads((path / "trace.json").read_text())["sites"]
    assert ["posterior" in header for header in headers] == [False, False, True]


def test_a_page_is_called_by_its_run_and_its_first_text(built: None) -> None:
    track = Track.of_pieces(["▁a", "▁b"], text="a <b>")
    plain = Trace(tracks={"source": track}, sites=(given(torch.eye(2)[None]),))
    assert plain.title == "a <b>"
    assert "<title>deep: a &lt;b&gt;</title>" in standalone(plain.named("deep"))
    assert replace(plain, tracks={"source": Track.numbered(2)}).title == "What the model attended to"
