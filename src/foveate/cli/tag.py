"""foveate tag"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import machine_arguments

    parser.epilog = """
examples:
  foveate tag run/ "I saw a saw"
  foveate tag run/ < sentences.txt > tagged.txt
  foveate tag run/ "I saw a saw" --columns

Words stand between white space: separate punctuation as the training data do. One line of output for each line of
input; with --columns a line for each word: word, tag and probability, and an empty line after each sentence.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="sentences to tag; by default the lines of standard input"
    )
    parser.add_argument("--columns", action="store_true", help="a line for each word, with tabs")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.options import chunks
    from foveate.cli.setup import prepare_machine, say
    from foveate.cli.strange import Strangers
    from foveate.cli.voice import shown
    from foveate.tasks.tag.use import SentenceTagger

    prepare_machine(arguments, quiet=True)
    tagger = SentenceTagger.load(arguments.run, note=say)
    strangers = Strangers(tagger, say)
    for chunk in chunks(arguments.text):
        strangers.note(chunk)
        for sentence in tagger.tag(chunk):
            if not arguments.columns:
                print(shown(str(sentence)), flush=True)
                continue
            for word, tag, sure in zip(sentence.words, sentence.tags, sentence.probabilities, strict=True):
                print(shown(word), shown(tag), f"{sure:.4f}", sep="\t")
            print(flush=True)
    return 0
