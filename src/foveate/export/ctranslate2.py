"""Exports a Transformer to CTranslate2, and decodes with this engine.

The weights are copied directly into CTranslate2's specification, without a converter, which would need other packages.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.data.tokeniser import EOS, SPECIALS, Tokeniser
from foveate.decode import Average, BeamConfig, DecodeConfig, GreedyConfig, Hypothesis
from foveate.errors import SetupError, UsageError
from foveate.export.plain_attention import POSITIONS, position_table, require, score_factor, transformer_refusals
from foveate.export.target import QUANTISATIONS, Quantisation, require_export_folder
from foveate.models import Seq2Seq, Transformer
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.transformer_block import Residual
from foveate.storage.draft import draft_folder

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
EPSILON = 1e-5
"""The epsilon of layer norms, which is fixed in CTranslate2."""
INSTEAD = "Export it with `--to onnx`, or use foveate's own engine, which runs every model."


def refusals(model: Seq2Seq) -> list[str]:
    """Why CTranslate2 cannot express a model; empty if it can."""
    reasons = transformer_refusals(model)
    if reasons:
        return reasons
    assert isinstance(model, Transformer)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    if any(norm.eps != EPSILON or norm.bias is None for norm in norms):
        reasons.append(f"its layer norms have no bias, or another epsilon than {EPSILON:g}")
    if next(model.parameters()).dtype is not torch.float32:
        reasons.append("its weights are not float32")
    blocks = [cast(Any, block) for block in (*cast(Any, model.encoder), *cast(Any, model.decoder))]
    attentions = [
        *(block.attention for block in blocks),
        *(block.cross_attention for block in cast(Any, model.decoder)),
    ]
    if len({attention.num_heads for attention in attentions}) > 1:
        reasons.append("its attentions differ in their number of heads")
    if len({block.feedforward.activation for block in blocks}) > 1:
        reasons.append("its blocks differ in their activations")
    places = {residual.place for residual in model.modules() if isinstance(residual, Residual)}
    if len(places) > 1:
        reasons.append("its blocks differ in the places of their norms")
    ends = (model.encoder_norm, model.decoder_norm)
    if any(isinstance(norm, nn.LayerNorm) != ("pre" in places) for norm in ends):
        reasons.append("its encoder or its decoder ends with another norm than usual")
    return reasons


def save_ctranslate2(
    model: Seq2Seq,
    folder: Path | str,
    *,
    source_vocabulary: Sequence[str],
    target_vocabulary: Sequence[str],
    quantisation: Quantisation = "float32",
) -> None:
    """Write a folder for CTranslate2, completely or not at all, in place of an earlier export.

    Its sources are vocabulary entries without the end token, which it adds. `vocabulary` makes the vocabularies. Scores
    equal the model's only in float32.

    Raises UsageError for a model that it cannot express, for vocabularies that do not name each id differently, and for
    a folder with other content; SetupError if its package is not installed.
    """
    require_export_folder(Path(folder))
    require(refusals(model), "CTranslate2", INSTEAD)
    if quantisation not in QUANTISATIONS:
        raise UsageError(f"quantisation={quantisation!r} is unknown. Choose one of {', '.join(QUANTISATIONS)}.")
    for side, names in (("source", source_vocabulary), ("target", target_vocabulary)):
        _require_names(side, names, cast(Transformer, model).get_submodule(f"{side}_embedding"))
    spec = _specification(cast(Transformer, model), package())
    spec.register_source_vocabulary(list(source_vocabulary))
    spec.register_target_vocabulary(list(target_vocabulary))
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=None if quantisation == "float32" else quantisation)
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    with draft_folder(Path(folder), size=size) as draft:
        spec.save(str(draft))


def _require_names(side: str, names: Sequence[str], embedding: nn.Module) -> None:
    """Raises UsageError for a vocabulary of another size than the embedding, and for one that has a name twice."""
    ids = cast(nn.Embedding, embedding).num_embeddings
    if len(names) != ids:
        raise UsageError(f"{side}_vocabulary has {len(names):,} names, and the model has {ids:,} ids. Name each id.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"{side}_vocabulary has {twice[0]!r} twice. Name each id differently, as `vocabulary` does.")


def vocabulary(tokeniser: Tokeniser) -> list[str]:
    """A unique name for every id: its label, followed by its number if the label is not unique."""
    names: dict[str, int] = {}
    for token, piece in enumerate([*SPECIALS, *tokeniser.pieces(range(len(SPECIALS), tokeniser.vocab_size))]):
        while piece in names:
            piece = f"{piece}#{token}"
        names[piece] = token
    return list(names)


def package() -> ModuleType:
    """The optional package. Raises SetupError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise SetupError("CTranslate2 is not installed. Try: pip install 'foveate[export]'") from None
    return cast(ModuleType, ctranslate2)


class CTranslate2Engine:
    """Decodes with a Transformer in CTranslate2 and returns hypotheses in our format.

    Greedy decoding in float32 gives the same tokens as ours. Beam search stops earlier: as soon as `beam` hypotheses
    are complete, whereas ours continues while a running hypothesis could be better than the worst of these. It may
    therefore miss a better hypothesis, and a few translations differ.
    """

    def __init__(self, model: Seq2Seq, quantisation: Quantisation = "float32") -> None:
        """Raises UsageError for a model that it cannot express, SetupError if its package is not installed."""
        library = package()
        self.longest = min(model.max_length or POSITIONS, POSITIONS)
        source, target = _numbers(cast(Any, model).source_embedding), _numbers(cast(Any, model).target_embedding)
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder, "model")
            save_ctranslate2(model, to, source_vocabulary=source, target_vocabulary=target, quantisation=quantisation)
            library.set_log_level(40)  # only errors, because messages about converted types are not useful
            self._translator = library.Translator(
                str(to),
                device="cpu",
                compute_type=quantisation,
                inter_threads=1,
                intra_threads=torch.get_num_threads(),
            )
        self._source, self._ids = source, {name: token for token, name in enumerate(target)}

    @staticmethod
    def refuses(config: DecodeConfig) -> list[str]:
        """The settings of a decoding with which it cannot give our scores."""
        if not isinstance(config, GreedyConfig | BeamConfig):
            return ["it samples with another random generator"]
        reasons = []
        if config.min_length or config.no_repeat_ngram:
            reasons.append("it renormalises probabilities after min_length and no_repeat_ngram")
        if isinstance(config, BeamConfig) and not isinstance(config.length_penalty, Average | None):
            reasons.append("it supports only the length penalties average and none")
        return reasons

    def decode(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], config: DecodeConfig
    ) -> list[list[Hypothesis] | None]:
        """The hypotheses of each source (ids with the end); None for a source that needs our own engine.

        These are sources with a hypothesis that exceeds its own limit (CTranslate2 has one limit for all sentences),
        or reaches it in beam search, or contains a forbidden token, and sources beyond the table of positions.
        """
        longest = max(limits, default=1)
        fitting = [len(source) <= self.longest and longest < self.longest for source in sources]
        pieces = [
            [self._source[token] for token in source[:-1]]
            for source, fits in zip(sources, fitting, strict=True)
            if fits
        ]
        beam = config.beam if isinstance(config, BeamConfig) else 1
        answers = iter(
            self._translator.translate_batch(
                pieces,
                beam_size=beam,
                num_hypotheses=config.num_best if isinstance(config, BeamConfig) else 1,
                length_penalty=_alpha(config),
                max_decoding_length=longest,
                max_input_length=0,
                min_decoding_length=0,
                return_scores=True,
                return_end_token=True,
            )
        )
        return [
            self._hypotheses(next(answers), limit, config) if fits else None
            for fits, limit in zip(fitting, limits, strict=True)
        ]

    def _hypotheses(self, answer: Any, limit: int, config: DecodeConfig) -> list[Hypothesis] | None:
        hypotheses, alone = [], isinstance(config, GreedyConfig)
        for names, score in zip(answer.hypotheses, answer.scores, strict=True):
            tokens = [self._ids[name] for name in names]
            finished = tokens[-1:] == [EOS]
            stopped = finished or (alone and len(tokens) == limit)
            if len(tokens) > limit or not stopped or set(tokens) & set(config.forbid):
                return None
            total = score * len(tokens) ** _alpha(config)
            hypotheses.append(Hypothesis(tuple(tokens[: len(tokens) - finished]), score, total, finished))
        return hypotheses


def _alpha(config: DecodeConfig) -> float:
    penalty = getattr(config, "length_penalty", None)
    return penalty.alpha if isinstance(penalty, Average) else 0.0


def _numbers(embedding: nn.Embedding) -> list[str]:
    """Names of ids for a model in memory, which does not need its tokeniser."""
    return [*SPECIALS, *(str(token) for token in range(len(SPECIALS), embedding.num_embeddings))]


def _specification(model: Transformer, library: ModuleType) -> Any:
    """The weights in the layout of CTranslate2."""
    encoder, decoder = cast(Any, model.encoder), cast(Any, model.decoder)
    first = decoder[0]
    specs = library.specs
    spec = specs.TransformerSpec.from_config(
        (len(encoder), len(decoder)),
        first.attention.num_heads,
        pre_norm=first.attention_residual.place == "pre",
        activation=getattr(specs.Activation, ACTIVATIONS[first.feedforward.activation]),
    )
    _embed(spec.encoder.embeddings[0], spec.encoder, model.source_embedding, model.position, model)
    _embed(spec.decoder.embeddings, spec.decoder, model.target_embedding, model.target_position, model)
    for theirs, ours in zip(spec.encoder.layer, encoder, strict=True):
        _self_attention(theirs.self_attention, ours.attention, ours.attention_residual.norm)
        _feedforward(theirs.ffn, ours)
    for theirs, ours in zip(spec.decoder.layer, decoder, strict=True):
        _self_attention(theirs.self_attention, ours.attention, ours.attention_residual.norm)
        _cross_attention(theirs.attention, ours.cross_attention, ours.cross_residual.norm)
        _feedforward(theirs.ffn, ours)
    for stack, norm in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
        if isinstance(norm, nn.LayerNorm):
            _norm(stack.layer_norm, norm)
    _linear(spec.decoder.projection, [model.output_table], [model.output_bias])
    return spec


def _embed(table: Any, stack: Any, embedding: nn.Embedding, position: nn.Module, model: Transformer) -> None:
    """Copy an embedding and its positions; both engines multiply embeddings by √d."""
    table.weight = embedding.weight.detach().numpy().copy()  # which the quantisation writes into
    places = position_table(position, model.model_dim, model.max_length)
    if places is None:
        places = torch.zeros(POSITIONS, model.model_dim)
    stack.position_encodings.encodings = places.numpy()


def _self_attention(theirs: Any, ours: MultiHeadAttention, norm: nn.Module) -> None:
    _linear(theirs.linear[0], *_parts(ours.query, ours.key, ours.value))
    _linear(theirs.linear[1], *_parts(ours.output))
    _attention(theirs, ours, norm)


def _cross_attention(theirs: Any, ours: MultiHeadAttention, norm: nn.Module) -> None:
    _linear(theirs.linear[0], *_parts(ours.query))
    _linear(theirs.linear[1], *_parts(ours.key, ours.value))
    _linear(theirs.linear[2], *_parts(ours.output))
    _attention(theirs, ours, norm)


def _attention(theirs: Any, ours: MultiHeadAttention, norm: nn.Module) -> None:
    theirs.queries_scale = np.float32(score_factor(ours))
    _norm(theirs.layer_norm, norm)


def _feedforward(theirs: Any, block: Any) -> None:
    _linear(theirs.linear_0, *_parts(block.feedforward.expand))
    _linear(theirs.linear_1, *_parts(block.feedforward.contract))
    _norm(theirs.layer_norm, block.feedforward_residual.norm)


def _parts(*layers: nn.Linear) -> tuple[list[Tensor], list[Tensor | None]]:
    return [layer.weight for layer in layers], [layer.bias for layer in layers]


def _linear(theirs: Any, weights: list[Float[Tensor, "outputs inputs"]], biases: list[Tensor | None]) -> None:
    theirs.weight = torch.cat(weights).detach().numpy()
    present = [bias for bias in biases if bias is not None]
    if present:
        theirs.bias = torch.cat(present).detach().numpy()


def _norm(theirs: Any, norm: nn.Module) -> None:
    theirs.gamma = cast(Tensor, norm.weight).detach().numpy()
    theirs.beta = cast(Tensor, norm.bias).detach().numpy()
