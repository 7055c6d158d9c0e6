"""The side of translation."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.data.parallel import ParallelData, prepare
from foveate.data.text import Pair, read_lines, read_pairs
from foveate.data.tokeniser import BOS, EOS, LanguageTokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.attribution import Answer
from foveate.metrics import Score, parse_pharaoh
from foveate.metrics.corpus import METRICS, evaluate, require_metrics
from foveate.storage.draft import require_writable, write_lines
from foveate.suggestion import counted
from foveate.tasks.answering import print_answers
from foveate.tasks.exported import COUNTED, Exported, Note, saver
from foveate.tasks.length_group import measured_lengths
from foveate.tasks.option import decode_config, metric_names, pairs_of
from foveate.tasks.report_page import score_rows, score_tiles, write_report
from foveate.tasks.run_model import require_text
from foveate.tasks.run_plan import Allowance, Probe, Suggestion, fewer, made_up, require_fit, vocabulary
from foveate.tasks.side import NOT_DATA, Asked, Scored, Side, buckets, in_percent, written
from foveate.tasks.sight import Sight
from foveate.tasks.stranger import Strangers
from foveate.tasks.translate import TASK
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.direction import example_option, reader_of, translated
from foveate.tasks.translate.pair import Pairs
from foveate.tasks.translate.run_tokeniser import TOKENISERS
from foveate.tasks.translate.served_translator import ServedTranslator
from foveate.tasks.translate.task import (
    VALIDATED,
    Forerunner,
    TranslateConfig,
    TranslateTask,
    build_model,
    longest,
    loss_of_words,
    require_measured,
)
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.translation_ablator import TranslationAblator
from foveate.tasks.translate.translation_answering import TranslationAnswering, aligned, require_consistent
from foveate.tasks.translate.translation_rerunner import TranslationRerunner
from foveate.tasks.translate.translation_size import learnt_sizes, suggest, suitable_metrics
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator
from foveate.tasks.word_alignment import every_head, score_heads, word_alignments
from foveate.voice import say

SAMPLES = 6


@dataclass(frozen=True, kw_only=True)
class Test:
    """Translations of data that a model was not trained with, and their scores."""

    file: str
    scores: Sequence[Score]
    translations: Sequence[Translation]
    references: Sequence[str]


class TranslationSight(Sight):
    """The attention of a translator: an alignment in the terminal, and the model behind the viewer."""

    def __init__(self, translator: Translator, translation: Translation, *, forced: bool = False) -> None:
        super().__init__(lambda: trace_of(translator, translation))
        self.translator, self.translation, self.forced = translator, translation, forced

    def alignment(self, arguments: argparse.Namespace) -> Alignment:
        return aligned(self.translator, self.translation, arguments)

    @property
    def rerunner(self) -> TranslationRerunner:
        return TranslationRerunner(self.translator, self.translation, self.trace)

    @property
    def ablator(self) -> TranslationAblator | None:
        ablator = TranslationAblator(self.translator, self.translation, self.trace, forced=self.forced)
        return ablator if ablator.hides else None


class TranslateSide(Side):
    """`foveate train translate`, `foveate translate`. Models are compared by BLEU, chrF, error rates, or perplexity."""

    entry, config, task = TASK, TranslateConfig, TranslateTask
    validated = VALIDATED
    not_data = NOT_DATA | {"guide", "unlikelihood", "preference"}
    lower = frozenset(
        {"loss", "perplexity", "alignment"} | {name for name in METRICS if name.endswith("error") or name == "ter"}
    )
    columns = ("source", "target")
    engines = ("ctranslate2", "onnx")
    begins_with_own = True

    def suggest(self, config: TranslateConfig, allowance: Allowance) -> Suggestion:
        return suggest(config, allowance)

    def probe(self, config: TranslateConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Pairs of the given lengths, as many as the token budget allows.

        Raises UsageError when the model has too few positions for these lengths, or a vocabulary has no room for text.
        """
        config = self.whole(config)
        joint, first, second = config.joint_vocabulary, *lengths
        sides = (config.source_tokeniser, config.source_tokeniser if joint else config.target_tokeniser)
        learnt = (vocab, vocab) if vocab else learnt_sizes(config)
        sizes = [vocabulary(side, size) for side, size in zip(sides, learnt, strict=True)]
        model = build_model(config, *sizes)
        require_fit(model.max_length, max(first, second + 1), "--source-length and --target-length")
        rows = max(config.data.max_tokens // (first + second), 1)

        def loss_of(rows: int) -> Callable[[], Tensor]:
            source, target = made_up(rows, first, sizes[0]), made_up(rows, second + 1, sizes[1])
            return lambda: loss_of_words(model, config, source, target)

        return Probe(
            model=model,
            loss=loss_of(rows),
            others=fewer(loss_of, rows),
            vocabulary=f"vocabularies {sizes[0]:,} and {sizes[1]:,}",
            batch=f"{rows} pairs of {first} and {second} tokens",
            tokens=rows * second,
            unit="target tokens",
        )

    def size(self, task: TranslateTask) -> str:
        return counted(len(task.training), "training pair")

    def load(self, run: Path | str, *, precision: Any = "float32", note: Note = say) -> Translator:
        return Translator.load(run, precision=precision, note=note)

    def offered(self, model: Translator, folder: Path) -> ServedTranslator:
        return ServedTranslator(model, folder)

    def use(self, arguments: argparse.Namespace) -> None:
        print_answers(self.answering(arguments), arguments)

    def answering(self, arguments: argparse.Namespace) -> TranslationAnswering:
        require_consistent(arguments)
        runs = [arguments.run, *arguments.ensemble]
        translators = [
            Translator.load(run, precision=arguments.precision, engine=arguments.engine, note=say) for run in runs
        ]
        translator = Translator.ensemble(translators) if arguments.ensemble else translators[0]
        return TranslationAnswering(self.asked(translator, arguments), arguments)

    def asked(self, model: Translator, arguments: argparse.Namespace) -> Translator:
        """The translator with the language that the command names."""
        return model if arguments.to is None else model.into(arguments.to)

    def sight(self, arguments: argparse.Namespace, text: str) -> TranslationSight:
        if arguments.target is None:
            require_text(text)
        translator = self.asked(self.load(arguments.run, precision=arguments.precision), arguments)
        Strangers(translator.source_tokeniser, say).note([text])
        if arguments.target is not None:
            return TranslationSight(translator, translator.forced(text, arguments.target), forced=True)
        translator.config = decode_config(translator.config, arguments)
        (translation,) = translator.translate([text])
        if not translation.hypotheses:
            raise UsageError("The text is empty: there is nothing to look at.")
        return TranslationSight(translator, translation)

    def answer(self, arguments: argparse.Namespace, text: str) -> Answer:
        """The translation that `sight` shows, with the attention that options name."""
        sight = self.sight(arguments, text)
        translator = sight.translator
        own = translator.head if arguments.site is None else replace(translator.head, when="producing")
        translator.head = Head.wanted(arguments.layer, arguments.head, arguments.when, own)
        if arguments.site is None and (arguments.layer, arguments.head) != (None, None):
            translator.align(
                [sight.translation]
            )  # Refuses a layer or a head that is not there, which `why` passes over.
        answer = translator.answer(sight.translation)
        return answer if arguments.site is None else answer.seen_at(arguments.site, arguments.head)

    def texts(self, model: Translator, arguments: argparse.Namespace) -> list[str]:
        """The sources of pairs, or the lines of a file without tabs: faithfulness needs no references."""
        paired = arguments.target or arguments.columns or not Path(arguments.source).is_file()
        if paired or any("\t" in line for line in read_lines(arguments.source)):
            return [pair.source for pair in pairs_of(arguments)]
        return list(read_lines(arguments.source))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score] | None:
        """Scores of a run's translations of pairs, which are saved and reported on request; or of its attention."""
        if arguments.gold:
            _evaluate_attention(arguments)
            return None
        pairs = list(pairs_of(arguments))
        if not pairs:
            raise DataError(f"{arguments.source} has no lines. Give a file with pairs to score the model on.")
        translator = self.asked(self.load(arguments.run, precision=arguments.precision), arguments)
        config = decode_config(translator.config, arguments)
        names = metric_names(arguments) or suitable_metrics(translator.target_tokeniser, arguments.to)
        require_metrics(names)
        require_writable(arguments.save, arguments.report)
        started = time.perf_counter()
        translations = translator.translate([pair.source for pair in pairs], config=config)
        seconds = time.perf_counter() - started
        unfinished = sum(not translation.finished for translation in translations)
        lines, cut = counted(len(pairs), "line"), f"{unfinished} reached the length limit before an end"
        say(f"{lines} in {seconds:.1f} seconds; {cut}.")
        hypotheses = [translation.text for translation in translations]
        if arguments.save:
            write_lines(arguments.save, hypotheses)
        references = [pair.target for pair in pairs]
        scores = evaluate(hypotheses, references, names)
        if arguments.report:
            file, folder = Path(arguments.source).name, Path(arguments.run)
            test = Test(file=file, scores=scores, translations=translations, references=references)
            self.write_report(translator, self.saved_config(folder), folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return scores

    def write_report(self, model: Translator, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        """The samples are translations of test pairs, or of the first validation pairs, with their alignments."""
        data, scores = config.data, test.scores if test else ()
        tested = f"{test.file}, {counted(len(test.references), 'line')}" if test else ""
        training, validation = (ParallelData.open(folder / "data" / part) for part in ("train", "valid"))
        if test is None:
            rows = range(min(SAMPLES, len(validation)))
            readers = [reader_of(model, validation, row) for row in rows]
            translations = [
                reader.translate(model.source_tokeniser.decode(validation.source[row].tolist()))
                for row, reader in zip(rows, readers, strict=True)
            ]
            references = [model.target_tokeniser.decode(validation.target[row].tolist()) for row in rows]
        else:
            translations, references = list(test.translations[:SAMPLES]), list(test.references[:SAMPLES])
            readers = [model] * len(translations)
        alignments = [
            reader.align(translation) if model.attends else None
            for reader, translation in zip(readers, translations, strict=True)
        ]
        files = " and ".join(Path(file).name for file in (data.source, data.target) if file)
        held_out = "held out by line: near-duplicates may be on both sides"
        own = "from a file of their own" if data.valid_source else held_out
        write_report(
            model.model,
            folder,
            path,
            tiles=[("training pairs", f"{len(training):,}"), *score_tiles(scores)],
            scores=score_rows(scores, tested),
            samples=[
                (translation.source, reference, translation.text, alignment)
                for translation, reference, alignment in zip(translations, references, alignments, strict=True)
            ],
            card={
                "data": f"{counted(len(training), 'pair')} from {files}",
                "validation": f"{counted(len(validation), 'pair')}, {own}",
                "test": f"{counted(len(test.references), 'pair')} from {test.file}"
                if test
                else "not yet: foveate evaluate RUN --report FILE",
                "limits": "Only inputs like those it was trained on. Symbols never seen in training become one unknown "
                "symbol.",
            },
            commands=[
                self.command(model, folder),
                f"foveate evaluate {written(folder)} --source FILE --target FILE",
                f'foveate look {written(folder)} "…"{example_option(model)} --out alignment.svg',
            ],
        )

    def trial(self, model: Translator) -> str:
        return f'"…"{example_option(model)} --align'

    def export(self, run: Path | str, note: Note) -> Exported:
        """An encoder and a decoder; tensors that pass from one graph to the other have one name."""
        translator = Translator.load(run, engine="own", note=note)
        tokenisers = (translator.source_tokeniser, translator.target_tokeniser)
        source, target = TOKENISERS
        meanings = {
            "source": f"ids of {source} and the end, {EOS}",
            "lengths": COUNTED,
            "memory.": "what encoder.onnx gave for each sentence; rows are sentence · hypotheses + hypothesis",
            "state.": "at first what encoder.onnx gave, once for each hypothesis; then new.state.… of the step before",
            "new.state.": "the state for the next step",
            "token": f"the newest ids of {target}; {BOS} begins, {EOS} ends",
            "time": "how many steps were made before",
            "logits": f"of the ids of {target} that may come next",
        }
        return Exported(translator.model, saver(dict(zip(TOKENISERS, tokenisers, strict=True))), meanings, tokenisers)

    def in_use(self, task: TranslateTask) -> Translator:
        config = task.config
        tokenisers = task.source_tokeniser, task.target_tokeniser
        return Translator(task.model, *tokenisers, config.decode, head=config.guide.place)

    def metrics(self) -> tuple[str, ...]:
        return (*METRICS, *VALIDATED)

    def usual_metrics(self, task: TranslateTask) -> tuple[str, ...]:
        if isinstance(task.source_tokeniser, LanguageTokeniser):  # BLEU divides words by the rules of one language
            return ("chrf", "perplexity")
        return (*suitable_metrics(task.target_tokeniser)[:2], "perplexity")

    def require_measured(self, config: Any) -> None:
        require_measured(config, config.train.metric)

    def require_given(self, task: TranslateTask, request: Asked) -> None:
        super().require_given(task, request)
        decoded = [name for name in request.metrics if name in METRICS]
        pairs = _pairs(task.config, request) if decoded else []
        references = [pair.target for pair in pairs]
        evaluate(references, references, decoded)  # what cannot be scored is said before the training
        if isinstance(task.source_tokeniser, LanguageTokeniser):
            for direction in {pair.direction for pair in pairs}:
                task.source_tokeniser.number(direction)
        if request.test and "alignment" in request.metrics:
            raise UsageError(
                "compare.metrics: alignment is measured by links, and test pairs have none here. Leave compare.test "
                "(--test-source) out, and it is measured on the validation pairs."
            )

    def require_metrics(self, metrics: Sequence[str]) -> None:
        super().require_metrics(metrics)
        require_metrics([name for name in metrics if name in METRICS])

    def longest(self, config: TranslateConfig) -> int:
        return longest(config)

    def whole(self, config: TranslateConfig) -> TranslateConfig:
        return config if config.initialise_from is None else Forerunner.load(config.initialise_from).into(config)

    def count(self, batch: Any) -> int:
        return int(batch.target.num_tokens - batch.target.size)

    def hold_out(self, config: TranslateConfig, folder: Path) -> dict[str, Any]:
        """The pairs that the task itself would hold out with the seed of the base."""
        return {} if config.data.valid_source is not None else Pairs(config.data, config.seed).hold_out(folder)

    def score(self, task: TranslateTask, config: TranslateConfig, folder: Path, request: Asked) -> Scored:
        """Decoded text of every line is scored, as `foveate evaluate` scores the same file.

        An empty source has an empty translation, which counts; an empty reference is refused before the training. What
        is measured of forced text, such as perplexity, leaves out pairs with an empty side, as training does.
        """
        decoded = [name for name in request.metrics if name in METRICS]
        values = self._forced(task, config, folder, request) if len(decoded) < len(request.metrics) else {}
        if not decoded:
            return Scored(values=self.pick(values, request.metrics))
        pairs = _pairs(config, request)
        translations = translated(self.in_use(task), pairs)
        texts, references = [translation.text for translation in translations], [pair.target for pair in pairs]
        values |= dict(zip(decoded, (score.value for score in evaluate(texts, references, decoded)), strict=True))
        lengths, unit = measured_lengths([pair.source for pair in pairs])

        def value(numbers: Sequence[int]) -> float | None:
            ours, theirs = ([side[number] for number in numbers] for side in (texts, references))
            try:
                return evaluate(ours, theirs, decoded[:1])[0].value
            except DataError:  # all references of this group are empty
                return None

        by_length = buckets(lengths, request, value)
        return Scored(values=self.pick(values, request.metrics), buckets=by_length, unit=unit)

    def _forced(self, task: TranslateTask, config: TranslateConfig, folder: Path, request: Asked) -> dict[str, float]:
        """The figures of `validate`, on the test data if there are any."""
        validation = task.validation
        if request.test:
            sides, limit = (task.source_tokeniser, task.target_tokeniser), self.longest(config)
            task.validation, _ = prepare(folder / "data" / "test", _pairs(config, request), *sides, max_length=limit)
        figures = task.validate()
        task.validation = validation
        return in_percent(figures)


def _pairs(config: TranslateConfig, request: Asked) -> list[Pair]:
    data = config.data
    if request.test and data.direction_column is not None:
        return list(data.read(request.test["source"], None))
    if request.test:
        return list(read_pairs(request.test["source"], request.test.get("target"), columns=request.columns))
    assert data.valid_source is not None
    return list(data.read(data.valid_source, data.valid_target))


def _evaluate_attention(arguments: argparse.Namespace) -> None:
    """Print alignment error rate, precision and recall of a run's attention over given translations."""
    pairs = list(pairs_of(arguments))
    gold = parse_pharaoh(read_lines(arguments.gold), arguments.gold)
    if len(pairs) != len(gold):
        lines, there = counted(len(gold), "line"), counted(len(pairs), "pair")
        raise DataError(f"{arguments.gold} has {lines}, but {arguments.source} has {there} to align.")
    translator = SIDE.asked(Translator.load(arguments.run, precision=arguments.precision, note=say), arguments)
    chosen = Head.wanted(arguments.layer, arguments.head, arguments.when, translator.head)
    if arguments.save:
        links = [alignment.pharaoh() for (alignment,) in word_alignments(translator, pairs, [chosen])]
        write_lines(arguments.save, links)
        say(f"Wrote {arguments.save}.")
    heads = every_head(translator) if arguments.per_head else [chosen]
    scores = score_heads(translator, pairs, gold, heads, where=arguments.gold)
    if arguments.json:
        tables = [_table(head, measured) for head, measured in zip(heads, scores, strict=True)]
        print(json.dumps(tables if arguments.per_head else tables[0]))
    elif arguments.per_head:
        for head, measured in sorted(zip(heads, scores, strict=True), key=lambda row: row[1][0].value):
            print(head, *(f"{score.name} {score.value:.2f}" for score in measured), sep="\t")
    else:
        print(*scores[0], sep="\n")


def _table(head: Head, scores: list[Score]) -> dict[str, object]:
    values = {score.name: {"value": score.value, "signature": score.signature} for score in scores}
    return {"layer": head.layer, "head": head.head, "when": head.when, **values}


SIDE = TranslateSide()
