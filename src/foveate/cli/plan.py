"""foveate plan"""

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate plan run.toml
  foveate plan run.toml --set model.block.model_dim=512 --source-length 200 --target-length 200
  foveate plan --show > run.toml        a commented configuration with every default

Nothing is trained: a random batch of this size makes a few probe steps.
"""
    from foveate.cli.options import count, machine_arguments

    parser.add_argument("config", nargs="?", metavar="TOML", help="configuration file")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="set one setting; may be repeated")
    parser.add_argument(
        "--show", action="store_true", help="print the resolved configuration as commented TOML, and stop"
    )
    parser.add_argument("--source-length", type=count, default=30, metavar="N", help="tokens of a source (default 30)")
    parser.add_argument("--target-length", type=count, default=30, metavar="N", help="tokens of a target (default 30)")
    parser.add_argument("--vocab", type=count, metavar="N", help="vocabulary size, where the tokenisers do not fix it")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from foveate.cli.setup import RunConfig, prepare_machine, resolve
    from foveate.config import to_toml
    from foveate.tasks.plan import plan

    config = resolve({}, arguments.config, {}, arguments.set, kind=RunConfig)
    if arguments.show:
        print(to_toml(config), end="")
        return 0
    prepare_machine(arguments)
    lengths = (arguments.source_length, arguments.target_length)
    print(plan(config, lengths=lengths, vocab=arguments.vocab, bfloat16=config.train.precision == "bfloat16"))
    return 0
