"""A click in the viewer: the time in which the server answers with a word switched off, by the shipped translator.

python benchmarks/switches.py # half a minute of a core

Every word of a sentence of 12 words is switched off in turn, as often as --rounds say. An answer is the translation
with the word off (a beam search), the score of the former translation, and the weights that the page draws. Times are
those of the server's session, without the network of the machine itself; seconds of the processor do not depend on
other work, those of the clock do.
"""

import argparse
import statistics
import time

import race
import torch

from foveate.inspect.answer_switch import words_of
from foveate.serve import Session
from foveate.tasks.translate.side import TranslationSight
from foveate.tasks.translate.use import Translator

SENTENCE = "A man in a red shirt is riding a bicycle down the street ."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    translator = Translator.load("en-fr")
    sight = TranslationSight(translator, translator.translate(SENTENCE))
    session, (site, head) = Session(sight.trace, ablator=sight.ablator), sight.trace.opening
    spans = words_of(sight.trace.tracks["source"])
    for begin, end in spans:  # once without a clock
        session.ablate([], range(begin, end), site, head)
    seconds: dict[str, list[float]] = {"processor": [], "clock": []}
    for begin, end in spans * arguments.rounds:
        started = time.process_time(), time.perf_counter()
        session.ablate([], range(begin, end), site, head)
        seconds["processor"].append(time.process_time() - started[0])
        seconds["clock"].append(time.perf_counter() - started[1])
    figures = {
        name: {"median": statistics.median(each), "largest": max(each), "count": len(each)}
        for name, each in seconds.items()
    }
    rows = [[name, f"{each['median']:.2f}", f"{each['largest']:.2f}"] for name, each in figures.items()]
    print(race.table(["seconds of the", "median", "largest"], rows))
    result = {"machine": race.machine(arguments.threads), "settings": race.settings(arguments), "seconds": figures}
    print(race.save("switches", result))


if __name__ == "__main__":
    main()
