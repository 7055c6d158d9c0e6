"""The one door for configuration: TOML files, `--set a.b=c`, a checkpoint's config.json, an HTTP body.

Configurations are frozen dataclasses beside the component they configure. Here plain data becomes them, with one set of
messages, and they become plain data and commented TOML again.
"""

from foveate.config.builder import build, chosen
from foveate.config.document import parse_json
from foveate.config.field import kind_of, setting
from foveate.config.plain import to_dict, to_toml
from foveate.config.toml import assign, override, read_toml

__all__ = [
    "assign",
    "build",
    "chosen",
    "kind_of",
    "override",
    "parse_json",
    "read_toml",
    "setting",
    "to_dict",
    "to_toml",
]
