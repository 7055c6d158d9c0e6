"""Drawings of `foveate look`, in the terminal or in the file of --out."""

import argparse
from typing import TYPE_CHECKING, Any

from foveate.errors import UsageError
from foveate.voice import say, screen

if TYPE_CHECKING:
    from foveate.inspect import Alignment, TimeAlignment, Trace


def draw(arguments: argparse.Namespace, sight: Any) -> None:
    """The steps of one query, or an alignment, in the terminal or in a file."""
    from foveate.inspect import alignment, terminal, times, write
    from foveate.inspect.flow import class_view
    from foveate.inspect.view import gazes, heading, hears, is_graph

    if arguments.steps is not None:
        _walk(arguments, sight.trace)
        return
    heard: TimeAlignment | None = sight.times(arguments)
    drawn: Alignment | None = None if heard else sight.alignment(arguments)
    if heard is None and drawn is None and hears(sight.trace, site_of(arguments, sight.trace)):
        heard = times(sight.trace, site=site_of(arguments, sight.trace), head=arguments.head)
    if heard is not None:
        _draw_times(arguments, sight.trace, heard)
        return
    links = (arguments.out or "").lower().endswith(".pharaoh")
    if drawn is None and not links and is_graph(sight.trace, site_of(arguments, sight.trace)):
        _draw_graph(arguments, sight.trace)
        return
    site = site_of(arguments, sight.trace)
    view = None if drawn else class_view(sight.trace, site=site, head=arguments.head)
    drawn = drawn or view or alignment(sight.trace, site=site, head=arguments.head)
    drawn = drawn.words() if arguments.words else drawn
    if arguments.out is None:
        if drawn.grid and view is None and not gazes(sight.trace, site):
            print(heading(sight.trace, site=site, head=arguments.head))
        print(terminal(drawn, **screen()))
        return
    if is_pictured(arguments.out) and (view or gazes(sight.trace, site)):
        _draw_gaze(arguments, drawn, sight.trace, site, words=view is None)
        return
    if links:
        drawn = drawn.without_specials()
    say(f"Wrote {write(drawn, arguments.out, scale=arguments.scale, dpi=dpi_of(arguments))}.")


def _draw_gaze(
    arguments: argparse.Namespace, drawn: "Alignment", trace: "Trace", site: int | str | None, *, words: bool
) -> None:
    """A picture once for each word or view of a class token, with the places that it looks at."""
    from foveate.inspect.figure.picture_file import write_gaze, write_view

    if arguments.scale != "linear":
        raise UsageError(
            "--scale is for maps, and --out writes where words or tokens look. Write the map with --svg or --png."
        )
    here = trace.sites[trace.opening[0] if site is None else trace.index(site)]
    picture = trace.tracks[here.key].picture
    write = write_gaze if words else write_view
    say(f"Wrote {write(drawn, arguments.out, picture=picture, dpi=dpi_of(arguments))}.")


def _draw_times(arguments: argparse.Namespace, trace: "Trace", heard: "TimeAlignment") -> None:
    """Words or labels along the time of a recording, in the terminal or in a file."""
    from foveate.inspect import strip, write_times

    if arguments.out is None:
        print(strip(heard, width=screen()["width"]))
        return
    site = site_of(arguments, trace)
    frames = trace.tracks[trace.sites[trace.opening[0] if site is None else trace.index(site)].key]
    path = write_times(heard, arguments.out, sound=frames.sound, picture=frames.picture, dpi=dpi_of(arguments))
    say(f"Wrote {path}.")


def _draw_graph(arguments: argparse.Namespace, trace: "Trace") -> None:
    """A graph or a molecule with its weights, in a file; in the terminal the strongest weights."""
    from foveate.inspect.figure.picture_file import write_drawing
    from foveate.inspect.view import graph

    drawing, lines = graph(trace, site=site_of(arguments, trace), head=arguments.head)
    if arguments.out is None:
        print(lines)
        return
    title = lines.partition("\n")[0]
    say(f"Wrote {write_drawing(drawing, lines, arguments.out, title=title, dpi=dpi_of(arguments))}.")


def _walk(arguments: argparse.Namespace, trace: "Trace") -> None:
    from foveate.inspect import steps

    site = site_of(arguments, trace)
    number, opening = trace.opening
    number = number if site is None else trace.index(site)
    head = arguments.head if arguments.head is not None else (opening or 0) if site is None else 0
    walked = steps(trace, number, head, _query(arguments.steps, trace, number))
    if arguments.out is None:
        print(walked)
    else:
        say(f"Wrote {walked.save(arguments.out, dpi=dpi_of(arguments))}.")


def _query(name: str, trace: "Trace", site: int) -> int:
    """The query that --steps names, by its number or its piece."""
    from foveate.inspect.alignment import join_pieces

    labels = trace.tracks[trace.sites[site].query].labels
    words = [join_pieces([label]) for label in labels]
    if name.isdecimal() and int(name) < len(labels):
        return int(name)
    for called in (labels, words):
        if name in called and not name.isdecimal():
            return called.index(name)
    some = ", ".join(f"{number} {word}" for number, word in enumerate(words[:12]))
    more = f" … {len(labels) - 1}" if len(labels) > 12 else ""
    raise UsageError(f"There is no query {name!r}: {trace.sites[site].title} has {some}{more}.")


def site_of(arguments: argparse.Namespace, trace: "Trace") -> int | str | None:
    """The attention that --site or --layer names."""
    if arguments.site is not None:
        return int(arguments.site) if arguments.site.isdecimal() else str(arguments.site)
    if arguments.layer is None:
        return None
    across = [number for number, site in enumerate(trace.sites) if site.kind == "cross" and not site.posterior]
    layers = across or list(range(len(trace.sites)))
    if not 0 <= arguments.layer < len(layers):
        others = f" that look across. --site chooses among all {len(trace.sites)} attentions" if across else ""
        raise UsageError(f"There is no layer {arguments.layer}: the trace has {len(layers)}{others}, counted from 0.")
    return layers[arguments.layer]


def is_pictured(out: str | None, *endings: str) -> bool:
    """Whether --out writes a picture of one of the endings."""
    return out is not None and out.lower().endswith(endings or (".svg", ".pdf", ".png"))


def dpi_of(arguments: argparse.Namespace) -> int:
    from foveate.inspect.figure.raster import DPI

    return DPI if arguments.dpi is None else int(arguments.dpi)
