"""Admission: who waits, who is refused, and by which rate."""

import pytest

from foveate.serve.service.admission import Admission, Limits, cost
from foveate.serve.service.refused import RefusedError

LENGTHS = (128, 4096)


def test_an_idle_service_admits_what_it_can_answer_and_a_busy_one_what_comes_to_its_turn_soon() -> None:
    admission = Admission(Limits(wait=2.0, timeout=120.0))
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


def test_a_service_that_has_little_to_do_does_not_become_slow_by_measuring() -> None:
    """One text at a time takes longer for each than many at once."""
    admission = Admission(Limits(wait=2.0), workers=2)
    admission.begin(1000.0)
    for _ in range(100):
        admission.measured(60, 0.3, 1)
    assert admission.rate == 2000
    for _ in range(100):
        admission.measured(60, 0.3, 8)
    assert admission.rate == pytest.approx(400, rel=0.1)
    for _ in range(100):
        admission.measured(600, 0.3, 1)
    assert admission.rate == pytest.approx(4000, rel=0.1)


def test_answers_at_once_or_soon_after_each_other_do_not_make_a_service_fast() -> None:
    admission = Admission(Limits())
    admission.begin(1000.0)
    for _ in range(1000):
        admission.measured(60, 0.3, 2)
        admission.measured(60, 0.0, 2)
        admission.measured(60, 0.3, 3)
        admission.measured(60, 0.003, 3)
    assert admission.rate == 1000
    admission.measured(60, 0.06, 8)
    assert admission.rate == pytest.approx(1000)
    for _ in range(100):
        admission.measured(600, 0.3, 2)
        admission.measured(600, 0.0, 2)
    assert admission.rate == pytest.approx(4000, rel=0.1)


def test_a_request_that_is_not_read_is_refused_by_the_wait_of_the_fastest() -> None:
    admission = Admission(Limits(wait=2.0))
    admission.begin(100.0, flights=True)
    admission.admit(1000, lane="batch")
    admission.admit(100, lane="flight")
    assert admission.busy().headers == {"retry-after": "1"}
    assert admission.busy(lane="batch").headers == {"retry-after": "9"}


def test_no_request_has_a_cost_below_its_text_or_beyond_the_longest_answer() -> None:
    for tokens in (-1_000_000, 0, None, "5", 10**12):
        price = cost("answer", ["four"], {"max_tokens": tokens}, LENGTHS)
        assert 4 <= price <= 4 + 4 * LENGTHS[1]


def test_a_request_that_does_not_say_how_much_is_written_costs_as_much_as_what_is_written() -> None:
    assert (
        cost("stream", ["four"], {}, LENGTHS) == cost("stream", ["four"], {"max_tokens": 128}, LENGTHS) == 4 + 4 * 128
    )
    assert cost("answer", ["four", "four"], {}, LENGTHS) == 2 * cost("answer", ["four"], {}, LENGTHS)
    assert cost("answer", ["four"], {"max_tokens": 5}) == cost("answer", ["four"], {}) == 4, "a translator"
    assert cost("explain", ["four"], {}, LENGTHS) < cost("answer", ["four"], {}, LENGTHS), "nothing is written"


def test_what_no_process_can_answer_before_its_deadline_is_refused_even_by_an_idle_service() -> None:
    admission = Admission(Limits(timeout=4.0), workers=3)
    admission.begin(100.0)
    with pytest.raises(RefusedError, match="about 4 seconds") as refusal:
        admission.admit(401)
    assert refusal.value.status == 422
    assert not admission.waiting
    admission.admit(401, streams=True)  # it takes long, but its parts come in time
    admission.release(401)
    with pytest.raises(RefusedError, match="about 5 seconds"):  # many are fast together, one alone is not
        admission.admit(10, alone=5.0)
    admission.admit(10, alone=3.9)
    admission.release(10)
    for _ in range(100):  # a slow moment is no reason, because only an answer could show that it is over
        admission.measured(1, 1.0)
    admission.admit(400)
    admission.release(400)
    for _ in range(100):
        admission.measured(1000, 1.0)
    admission.admit(3000)


def test_a_service_is_full_from_a_refusal_until_some_is_answered() -> None:
    admission = Admission(Limits(wait=2.0))
    admission.begin(100.0)
    assert not admission.is_full
    for _ in range(19):
        admission.admit(10)
    with pytest.raises(RefusedError):
        admission.admit(100)
    assert not admission.is_full, "shorter ones are still admitted"
    admission.admit(10)
    with pytest.raises(RefusedError) as refusal:
        admission.admit(1)
    assert admission.is_full
    assert admission.busy(1).reason == refusal.value.reason
    admission.release(9)
    assert admission.is_full, "others need not be read for so little"
    admission.release(1)
    assert not admission.is_full
    admission.admit(10)
    assert not admission.is_full, "nobody was refused since"


def test_what_flies_does_not_wait_for_batches_but_for_explanations() -> None:
    admission = Admission(Limits(wait=2.0, timeout=120.0))
    admission.begin(100.0, flights=True)
    admission.admit(1_000)
    with pytest.raises(RefusedError, match=r"would wait 10\.1 seconds"):
        admission.admit(10)
    assert not admission.is_full, "what flies is still admitted"
    admission.admit(60, lane="flight")
    with pytest.raises(RefusedError, match=r"would wait 2\.0 seconds"):
        admission.admit(41, lane="flight")
    assert not admission.is_full
    admission.admit(40, lane="flight")
    with pytest.raises(RefusedError):
        admission.admit(1, lane="flight")
    assert admission.is_full
    admission.release(1_000)
    admission.admit(100, lane="flight")  # half of the time was reckoned to the batch, which has ended
    admission.release(200, lane="flight")
    assert admission.waiting == 0
    admission.admit(150, lane="explanation")
    with pytest.raises(RefusedError):
        admission.admit(60, lane="flight")
    admission.admit(20, lane="flight")


def test_a_service_without_flights_is_full_of_batches() -> None:
    admission = Admission(Limits(wait=2.0))
    admission.begin(100.0)
    admission.admit(1_000)
    with pytest.raises(RefusedError):
        admission.admit(10)
    assert admission.is_full


def test_texts_without_characters_show_nothing_about_the_rate() -> None:
    admission = Admission(Limits())
    admission.begin(100.0)
    admission.admit(1_000)
    with pytest.raises(RefusedError):
        admission.admit(1)
    admission.measured(0, 0.5)
    assert admission.is_full
    assert admission.busy().status == 429
