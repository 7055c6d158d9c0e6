"""The self-test of a machine."""

from foveate.attention.selftest import Outcome, self_test


def test_it_passes_here_and_says_how_well() -> None:
    outcome = self_test()
    assert outcome.passed
    assert outcome.worst < 1e-5
    assert str(outcome).startswith(f"explain = run in {outcome.cases} cases, largest float32 difference ")


def test_a_failure_is_named() -> None:
    outcome = Outcome(cases=7, worst=1.0, seconds=0.1, failures=("sdpa, Dot(), causal(): difference 1.0e+00", "more"))
    assert not outcome.passed
    assert str(outcome) == "FAILED on 2 of 7 cases, first: sdpa, Dot(), causal(): difference 1.0e+00"
