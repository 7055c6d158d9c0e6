"""foveate generate"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    from foveate.cli.options import count, decode_arguments, machine_arguments

    parser.epilog = """
examples:
  foveate generate run/ "ROMEO:"
  foveate generate run/ "ROMEO:" --count 3 --length 400 --set temperature=0.6 --set seed=7
  foveate generate run/ "It is a truth" --lines 1 --set kind=greedy
  foveate generate run/ < prompts.txt                            a prompt on each line

Prompts are printed with what follows them, one empty line between two.
"""
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="texts to go on from; by default the lines of standard input"
    )
    parser.add_argument("--count", type=count, default=1, metavar="N", help="continuations of each prompt (default 1)")
    parser.add_argument("--length", type=count, metavar="N", help="tokens to write at most")
    parser.add_argument(
        "--lines", type=count, metavar="N", help="stop after so many lines; by default only at --length"
    )
    decode_arguments(parser)
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import decode_config, prepare_machine, say
    from foveate.cli.strange import Strangers
    from foveate.cli.voice import shown
    from foveate.data.text import read_lines
    from foveate.tasks.language_model.use import Generator

    prepare_machine(arguments, quiet=True)
    generator = Generator.load(arguments.run, precision=arguments.precision, note=say)
    config = decode_config(generator.config, arguments)
    done = 0
    strangers = Strangers(generator.tokeniser, say)
    for prompt in arguments.prompt or read_lines("-"):
        strangers.note(prompt.split("\n"))
        found = generator.generate(
            prompt, config=config, count=arguments.count, first=done, length=arguments.length, lines=arguments.lines
        )
        for continuation in found:
            print("\n" * (done > 0), shown(strangers.broken(str(continuation))), sep="", flush=True)
            done += 1
    return 0
