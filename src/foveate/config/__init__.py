"""Reads all configurations: TOML files, `--set a.b=c`, a checkpoint's config.json, an HTTP body.

Configurations are frozen dataclasses beside the component that they configure. This package converts plain data to
them, with one set of messages, and converts them back to plain data and commented TOML.
"""

from foveate.config.builder import build, chosen, modules_in, permit
from foveate.config.document import parse_json
from foveate.config.field import kind_of, require_choices, require_counts, setting
from foveate.config.plain import to_dict, to_toml
from foveate.config.toml import assign, override, read_toml

__all__ = [
    "assign",
    "build",
    "chosen",
    "kind_of",
    "modules_in",
    "override",
    "parse_json",
    "permit",
    "read_toml",
    "require_choices",
    "require_counts",
    "setting",
    "to_dict",
    "to_toml",
]
