"""Compares encoders on `I saw a saw`, in which the same word is a verb and then a noun.

    python examples/tagging/run.py
    python examples/tagging/run.py --encoder ran --encoder window

In the generated sentences, eight words are verbs in some places and nouns in others. Each encoder is trained to tag
them, with the same data and settings, and then tags the sentence. A fully-connected layer without context gives the
same word the same tag, so that at most one of the two is correct. With a context window it can learn the task, but its
first matrix grows with the window. The other encoders see the whole sentence, or as much as their layers cover; --all
adds an LSTM, a BERT and all efficient kinds of attention.

Each run is also an ordinary run folder: `foveate tag demo/tagging/rnn "I saw a saw"`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from foveate.attention.efficient import (
    BigbirdConfig,
    EfficientConfig,
    LinearConfig,
    LinformerConfig,
    LocalBlockConfig,
    LongformerConfig,
    PerformerConfig,
    ReformerConfig,
    SinkhornConfig,
    SparseConfig,
    SynthesizerConfig,
)
from foveate.config import to_dict
from foveate.data.labelled import Tagged
from foveate.data.synthetic import tagged_sentences
from foveate.models.bert import BERTConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import (
    CNNEncoderConfig,
    EncoderConfig,
    RANEncoderConfig,
    RNNEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
)
from foveate.nn.transformer_block import BlockConfig
from foveate.storage.run import create_run
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.tag.task import TagConfig, TagTask
from foveate.tasks.tag.use import SentenceTagger, TaggedSentence
from foveate.train import Cosine, TrainConfig, fit

SENTENCE = "I saw a saw"
BLOCK = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=64, norm="pre")
ENCODERS: dict[str, EncoderConfig] = {
    "word": WindowEncoderConfig(window=0, hidden_dim=32),
    "window": WindowEncoderConfig(window=1, hidden_dim=32),
    "cnn": CNNEncoderConfig(hidden_dim=32),
    "rnn": RNNEncoderConfig(hidden_dim=16),
    "transformer": TransformerEncoderConfig(block=BLOCK, num_layers=2),
    "ran": RANEncoderConfig(model_dim=32, num_heads=2, head_dim=16, window=4, num_layers=2),
}
EFFICIENT: dict[str, EfficientConfig] = {
    "linear": LinearConfig(),
    "performer": PerformerConfig(num_features=32),
    "linformer": LinformerConfig(max_length=20, projected_length=8),
    "reformer": ReformerConfig(buckets=4, rounds=4, chunk=8),
    "sinkhorn": SinkhornConfig(block=4),
    "synthesizer": SynthesizerConfig(max_length=20),
    "local_block": LocalBlockConfig(block=8),
    "sparse": SparseConfig(block=4),
    "longformer": LongformerConfig(window=4),
    "bigbird": BigbirdConfig(block=2, window=1, random=1),
}
ALL: dict[str, EncoderConfig | BERTConfig] = {
    **ENCODERS,
    "lstm": RNNEncoderConfig(cell="lstm", hidden_dim=16),
    "bert": BERTConfig(block=replace(BLOCK, norm="post", activation="gelu"), num_layers=2, max_length=24),
    **{
        name: TransformerEncoderConfig(block=replace(BLOCK, encoder_attention=attention), num_layers=2)
        for name, attention in EFFICIENT.items()
    },
}
MODEL = TaggerConfig(embedding_dim=16, character_dim=0, dropout=0.1, word_dropout=0.0)
STEPS = 150


def main(argv: Sequence[str] | None = None) -> dict[str, tuple[float, TaggedSentence]]:
    """Print the accuracy on unseen sentences, and the tags of the sentence, for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", choices=ALL, action="append", help="train only this encoder; may be repeated")
    parser.add_argument("--all", action="store_true", help="train all encoders")
    parser.add_argument("--out", type=Path, default=Path("demo/tagging"), help="folder of the runs (demo/tagging)")
    parser.add_argument("--small", action="store_true", help="a few steps, to test the code")
    arguments = parser.parse_args(argv)
    results = {}
    print(f"{'encoder':12} {'parameters':>10} {'accuracy, %':>12}  {SENTENCE}")
    for name in arguments.encoder or (ALL if arguments.all else ENCODERS):
        run = arguments.out / (name + "-small" * arguments.small)
        tagger = trained(ALL[name], run, steps=3 if arguments.small else STEPS)
        share, (said,) = accuracy(tagger), tagger.tag([SENTENCE])
        results[name] = share, said
        print(f"{name:12} {tagger.model.parameter_count():>10,} {100 * share:>12.1f}  {said}")
    return results


def trained(encoder: EncoderConfig | BERTConfig, folder: Path, *, steps: int = STEPS) -> SentenceTagger:
    """A tagger with this encoder, trained for some seconds in its own run folder; a finished one is loaded."""
    if (folder / "model.json").exists():
        return SentenceTagger.load(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "tagged.txt"
    data.write_text("".join(f"{line(sentence)}\n" for sentence in tagged_sentences(1500)), encoding="utf-8")
    files = LabelledDataConfig(data=str(data), max_length=20, max_tokens=256)
    config = TagConfig(data=files, model=replace(MODEL, encoder=encoder))
    training = TrainConfig(
        steps=steps, learning_rate=1e-2, schedule=Cosine(warmup=20), validate_every=steps, save_every=steps
    )
    task, _ = TagTask.prepare(config, folder)
    create_run(folder, "tag", {**to_dict(config), "train": to_dict(training)}, task.digests)
    fit(task, training, folder)
    return SentenceTagger(task.model, task.vocabulary)


def accuracy(tagger: SentenceTagger) -> float:
    """The share of correct tags in unseen sentences."""
    predicted, gold = tagger.predict(list(tagged_sentences(200, seed=1))).flat
    return sum(a == b for a, b in zip(predicted, gold, strict=True)) / len(gold)


def line(sentence: Tagged) -> str:
    """A sentence in the format of the file."""
    return " ".join(f"{word}/{tag}" for word, tag in zip(sentence.words, sentence.tags, strict=True))


if __name__ == "__main__":
    main()
