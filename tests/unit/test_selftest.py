"""The self-test of a machine."""

import pytest
import torch

from foveate import native
from foveate.attention import Attention
from foveate.attention.paths import PATHS, EdgesPath
from foveate.cli.selftest import Outcome, cases, self_test


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return self_test()


def test_it_passes_here_and_prints_the_largest_difference(outcome: Outcome) -> None:
    assert outcome.passed
    assert outcome.worst < 1e-5
    assert str(outcome).startswith(f"explain = run in {outcome.cases} cases, largest float32 difference ")


def test_every_path_of_this_machine_runs(outcome: Outcome) -> None:
    compiled = set() if native.state().startswith("in use") else {"short"}
    never = {name for name, count in outcome.runs.items() if not count}
    assert set(outcome.runs) == {path.name for path in PATHS}
    assert never <= {"flex"} | compiled
    assert sum(outcome.runs.values()) == outcome.cases
    assert f"edges {outcome.runs['edges']} times" in outcome.listing()
    assert outcome.listing().endswith("flex never")


def test_graphs_both_kinds_of_graph_attention_and_autocast_are_among_the_cases() -> None:
    built = {(type(case.score).__name__, str(case.rule).split("(")[0]) for case in cases()}
    assert {("GatConfig", "edges"), ("GatV2Config", "edges"), ("GatV2Config", "everything")} <= built
    assert any("autocast" in case.precisions for case in cases())


def test_a_path_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = EdgesPath.run

    def wrong(self: EdgesPath, formula: Attention, *inputs: torch.Tensor, **tensors: object) -> torch.Tensor:
        return right(self, formula, *inputs, **tensors) * 1.5

    monkeypatch.setattr(EdgesPath, "run", wrong)
    outcome = self_test()
    assert not outcome.passed
    assert {failure.split(",")[0] for failure in outcome.failures} == {"edges"}
    assert len(outcome.failures) == outcome.runs["edges"]


def test_a_failure_is_named() -> None:
    outcome = Outcome(cases=7, worst=1.0, seconds=0.1, failures=("sdpa, Dot(), causal(): difference 1.0e+00", "more"))
    assert not outcome.passed
    assert str(outcome) == "FAILED on 2 of 7 cases, first: sdpa, Dot(), causal(): difference 1.0e+00"
