"""Admission: who waits, who is refused, and by which rate."""

import pytest

from foveate.serve.service.admission import Admission, Limits, cost
from foveate.serve.service.refused import RefusedError
from foveate.tasks.served import MOST_TOKENS


def test_an_idle_service_admits_anything_and_a_busy_one_what_comes_to_its_turn_soon() -> None:
    admission = Admission(Limits(wait=2.0))
    admission.begin(100.0)
    admission.admit(10_000)
    with pytest.raises(RefusedError) as refusal:
        admission.admit(1)
    assert refusal.value.status == 429
    assert refusal.value.headers == {"retry-after": "99"}  # 10,001 characters take 100 s, and 2 may be waited
    admission.release(10_000)
    admission.admit(100)
    admission.admit(100)
    with pytest.raises(RefusedError):
        admission.admit(1)
    assert admission.waiting == 200


def test_patience_is_half_of_the_deadline_at_most() -> None:
    admission = Admission(Limits(wait=60.0, timeout=4.0))
    admission.begin(100.0)
    admission.admit(150)
    with pytest.raises(RefusedError):
        admission.admit(51)


def test_the_rate_follows_the_work_of_the_last_seconds() -> None:
    admission = Admission(Limits(), workers=2)
    admission.begin(100.0)
    assert admission.rate == 200
    for _ in range(100):
        admission.measured(500, 1.0)
    assert admission.rate == pytest.approx(1000)
    for _ in range(5):  # one half-life
        admission.measured(100, 1.0)
    assert 500 < admission.rate < 700


def test_no_request_has_a_cost_below_its_text_or_beyond_the_longest_answer() -> None:
    for tokens in (-1_000_000, 0, None, "5", 10**12):
        price = cost("answer", ["four"], {"max_tokens": tokens})
        assert 4 <= price <= 4 + 4 * MOST_TOKENS
