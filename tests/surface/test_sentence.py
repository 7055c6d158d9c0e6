"""What Python says of a step is said by the viewer in its reader's language: it knows every sentence."""

import itertools
import json
import re
from pathlib import Path

import torch

from foveate.attention import Attention, Dot, Entmax, ReLU, ScaledDot, Sigmoid, Softmax, Sparsemax, causal, record
from foveate.attention.bias import Alibi, Gaussian
from foveate.attention.efficient.pattern import PredictedCentre
from foveate.attention.normaliser import Hard
from foveate.attention.score import Additive, ShawRelative
from foveate.attention.visibility import everything
from foveate.inspect import Trace, position_steps, steps

CATALOGUE = Path(__file__).parents[2] / "viewer" / "src" / "strings" / "step.json"


def test_every_sentence_of_a_step_is_known_to_the_viewer_which_says_it_in_its_reader_s_language() -> None:
    catalogue = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    known = [re.compile(re.sub(r"\\\{\w+\\\}", "(.+?)", re.escape(sentence)) + "(?: |$)") for sentence in catalogue]
    normalisers = (
        *(Softmax(), Softmax(temperature=0.01), ReLU(), ReLU(normalised=False), Sigmoid(), Sparsemax(), Entmax()),
        Hard(mode="argmax"),
    )
    scores = (Dot(), ScaledDot(), Additive(query_dim=12, key_dim=12, hidden_dim=9), ShawRelative(head_dim=12, radius=2))
    told = [step.about for step in position_steps(3, 4, base=100.0)]
    for normaliser, score, visibility, bias, centred in itertools.product(
        normalisers, scores, (everything(), causal()), (None, Alibi(1), Gaussian(sigma=2.0)), (False, True)
    ):
        more = (
            {"reweight": Gaussian(sigma=2.0), "centre": PredictedCentre(query_dim=12, hidden_dim=4)} if centred else {}
        )
        attention = Attention(score, visibility=visibility, bias=bias, normaliser=normaliser, **more).eval()
        x = torch.randn(1, 1, 14, 12)
        with torch.no_grad(), record(attention) as seen:
            attention.run(x, x, x)
        told += [step.about for step in steps(Trace.of(seen, stored="float32"), 0, 0, 5)]
    unknown = set()
    for about in set(told):
        rest = about
        while rest and (found := next((match for match in (each.match(rest) for each in known) if match), None)):
            rest = rest[found.end() :]
        if rest:
            unknown.add(about)
    assert not unknown
    for others in catalogue.values():
        assert set(others) == {"fa", "ru", "zh"}
