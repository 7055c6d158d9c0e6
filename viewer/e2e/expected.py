"""What the translator that comes with the package answers, as JSON: the browser tests expect it of the viewer.

Usage: python expected.py SENTENCE SWITCHED, where a word of the sentence is switched off; and then the head of the last
layer without which the answer changes most.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from foveate import Translator
from foveate.inspect import Trace
from foveate.inspect.alignment import join_pieces
from foveate.tasks.translate.translation_ablator import TranslationAblator


def main(sentence: str, switched: str) -> None:
    translator = Translator.load("en-fr")
    translation = translator.translate(sentence)
    trace = translator.trace(sentence)
    ablator = TranslationAblator(translator, translation, trace)
    site, _ = trace.opening
    off = dict(zip(words(trace, "source"), trace.tracks["source"].spans("word"), strict=False))[switched]

    def without(tokens: Sequence[int], heads: Sequence[tuple[str, int]]) -> dict[str, Any]:
        answer = ablator(heads_off=heads, tokens_off=tokens, site=site, head=None)
        header = answer.header(trace.tracks)
        log_probabilities = header["log_probability_before"], header["log_probability"]
        return {"answer": answer.tracks["target"].text, "log_probabilities": log_probabilities}

    heads = [without((), [(trace.sites[site].name, head)]) for head in range(trace.sites[site].heads)]
    costs = [each["log_probabilities"][0] - each["log_probabilities"][1] for each in heads]
    head = max(range(len(heads)), key=lambda head: (heads[head]["answer"] != translation.text, costs[head]))
    print(
        json.dumps(
            {
                "source": words(trace, "source"),
                "target": words(trace, "target"),
                "weights": word_weights(trace, site),
                "off": list(range(*off)),
                "without_word": without(range(*off), ()),
                "head": head,
                "site": site,
                "heads": sum(each.heads for each in trace.sites),
                "without_head": heads[head],
            }
        )
    )


def words(trace: Trace, track: str) -> list[str]:
    """The words of a side, without the mark of its end."""
    whole = trace.tracks[track]
    return [join_pieces(whole.labels[begin:end]) for begin, end in whole.spans("word")][:-1]


def word_weights(trace: Trace, site: int) -> list[list[float]]:
    """The mean of all heads: the rows of a word's pieces averaged, and their columns summed."""
    whole = np.mean([trace.sites[site].weights(head)[0].float().numpy() for head in range(trace.sites[site].heads)], 0)
    rows, columns = (trace.tracks[name].spans("word") for name in ("target", "source"))
    return [[float(whole[slice(*row), slice(*column)].sum(1).mean()) for column in columns] for row in rows]


if __name__ == "__main__":
    main(*sys.argv[1:])
