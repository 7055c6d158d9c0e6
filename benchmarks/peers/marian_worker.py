"""Marian's decoder as the package `bergamot` 0.4.5 contains it: a worker of `race.py` for Python 3.10 and older.

It imports nothing of ours, because nothing of ours runs there. The package's own module asks the network for a list of
models when it is imported, so the compiled module is taken out of its folder.
"""

import importlib.util
import json
import os
import resource
import sys
import time
from pathlib import Path

CONFIG = """
models: [{folder}/model.npz]
vocabs: [{folder}/vocab.spm, {folder}/vocab.spm]
beam-size: {beam}
normalize: 1.0
word-penalty: 0
skip-cost: {skip}
gemm-precision: {precision}
max-length-break: 256
max-length-factor: 3.0
mini-batch-words: 1000000
workspace: 512
cpu-threads: 0
quiet: true
quiet-translation: true
ssplit-mode: sentence
ssplit-prefix-file: ""
"""
"""A text of many lines is one batch. Greedily no softmax is computed, as with Marian's published models."""


def compiled_module():
    found = importlib.util.find_spec("bergamot")
    if found is None:
        raise ImportError("bergamot is not installed")
    sys.path.insert(0, str(Path(found.origin).parent))
    import _bergamot

    return _bergamot


class Marian:
    """One worker thread, which gets each batch in one piece."""

    def __init__(self, folder):
        self.library, self.folder = compiled_module(), folder
        self.service = self.library.Service(self.library.ServiceConfig(1, 0, "off"))
        self.models = {}
        self.options = self.library.ResponseOptions(qualityScores=False, alignment=False, sentenceMappings=False)

    def __call__(self, precision, job):
        """The outputs, with the seconds of Marian alone."""
        text = "\n".join(" ".join(f"w{token}" for token in row[:-1]) for row in job["sources"])
        model = self.model(precision, job["beam"])
        cpu, wall = time.process_time(), time.perf_counter()
        (answer,) = self.service.translate(model, self.library.VectorString([text]), self.options)
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        lines = answer.target.text.split("\n")
        outputs = [[int(word[1:]) for word in line.split()] for line in lines]
        assert len(outputs) == len(job["sources"])
        return {"units": len(outputs), "outputs": outputs, **spent}

    def model(self, precision, beam):
        if (precision, beam) not in self.models:
            skip = "true" if beam == 1 else "false"
            config = CONFIG.format(folder=self.folder, beam=beam, precision=precision, skip=skip)
            self.models[precision, beam] = self.service.modelFromConfig(config)
        return self.models[precision, beam]


def main():
    options = json.loads(sys.argv[-1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    marian = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            marian = marian or Marian(options["folder"])
            answer = marian(question["engine"], question["job"])
        except ImportError as error:
            answer = {"missing": str(error)}
        answer["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
