"""The GPU kernels of additive attention, without a GPU: interpreted for their numbers, compiled for their form.

Whether Triton interprets is decided when it is imported, so both happen in processes of their own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.attention import AdditiveConfig, Attention, Positions, Sparsemax, causal, padding, window
from foveate.attention.paths import AdditivePath, pairwise_triton

HERE = Path(__file__).parent
HAS_TRITON = importlib.util.find_spec("triton") is not None


def told_by(script: str, cache: Path, *, interpret: bool) -> dict[str, Any]:
    """What a script prints as JSON; nothing where triton is not installed."""
    if not HAS_TRITON:
        return {}
    environment = {**os.environ, "TRITON_INTERPRET": "1" if interpret else "0", "TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "ignore", str(HERE / script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told_by("triton_interpreted.py", tmp_path_factory.mktemp("triton"), interpret=True)


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pairwise_triton.unavailable.cache_clear()
    x = torch.zeros(1, 1, 2, 4)
    site = Attention(AdditiveConfig().build(query_dim=4, key_dim=4))
    assert pairwise_triton.reasons(site, x) == ["triton is not installed"]
    pairwise_triton.unavailable.cache_clear()


def test_kernels_that_fail_are_a_reason_and_no_error() -> None:
    """Compiled for a CPU, which Triton cannot."""
    pairwise_triton.unavailable.cache_clear()
    assert pairwise_triton.unavailable(torch.device("cpu"))


def test_the_check_before_first_use_is_passed(interpreted: dict[str, Any]) -> None:
    assert interpreted.get("unavailable", "") == ""


@pytest.mark.slow
@pytest.mark.parametrize("group", ["rules", "shapes", "parts", "extremes", "promises"])
def test_contexts_and_gradients_are_those_of_the_formula(interpreted: dict[str, Any], group: str) -> None:
    if not HAS_TRITON:
        return
    assert interpreted[group]
    assert {name: error for name, error in interpreted[group].items() if not error <= 1.0} == {}


@pytest.mark.slow
def test_they_compile_for_gpus_with_one_reciprocal_for_two_terms(tmp_path: Path) -> None:
    """A thread's loop takes as many reciprocals as the thread has pairs; each iteration is two hidden units or keys.
    Graph attention takes none.
    """
    reply = told_by("triton_compiled.py", tmp_path, interpret=False)
    assert bool(reply) == HAS_TRITON
    assert {name: answer for name, answer in reply.items() if answer["shared"] > 99 * 1024} == {}
    expected = {name: 0 if name.startswith("graph") else answer["pairs"] for name, answer in reply.items()}
    assert {name: answer["reciprocals"] for name, answer in reply.items()} == expected


def test_what_the_kernels_cannot_do_is_refused_with_a_reason() -> None:
    x = torch.zeros(1, 1, 2, 4)
    score = AdditiveConfig().build(query_dim=4, key_dim=4)
    assert pairwise_triton.reasons(Attention(score, normaliser=Sparsemax()), x) == [
        "on a GPU only softmax, not Sparsemax()"
    ]
    assert pairwise_triton.reasons(Attention(score, reweight=lambda at: at.key), x) == [
        "weights are reweighted after softmax"
    ]
    assert pairwise_triton.reasons(Attention(score), x.double()) == ["computes in float32, not in torch.float64"]
    elsewhere = x.to("meta")
    assert AdditivePath().refuses(Attention(score), elsewhere, elsewhere, Positions.of(2, 2)) == [
        "made for CPUs and CUDA, not for meta"
    ]


def test_windows_and_padding_need_no_mask_of_all_pairs() -> None:
    at = Positions.of(5, 5, key_lengths=torch.tensor([5, 2]))
    result = pairwise_triton.sight_under(causal() & window(left=2, right=1) & padding(), at)
    assert (result.left, result.right) == (2, 0)
    assert result.mask is not None
    assert result.mask.shape == (2, 1, 1, 5)
    assert pairwise_triton.sight_under(padding(), at).query_at is None
    general = pairwise_triton.sight_under(causal() & ~window(left=1, right=0), at)
    assert general.mask is not None
    assert general.mask.shape[-2:] == (5, 5)
    assert general.left == pairwise_triton.UNBOUNDED


def test_the_cost_tells_of_a_mask_of_all_pairs() -> None:
    x, score = torch.zeros(2, 1, 100, 4), AdditiveConfig().build(query_dim=4, key_dim=4)
    known, general = (
        pairwise_triton.cost(Attention(score, visibility=rule), x, x, training=False) for rule in (causal(), ~causal())
    )
    assert general.bytes - known.bytes == 2 * 100 * 100
    trained = pairwise_triton.cost(Attention(score), x, x, training=True)
    assert trained.bytes > known.bytes
