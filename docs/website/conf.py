"""Sphinx's configuration of the documentation site. `docs/website/build_site.py` runs it once for each language."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import staging  # noqa: E402

project, author = "Foveate", "Foveate contributors"
version = release = staging.version()
project_copyright = f"2026, {author}"
extensions = ["myst_nb", "answer", "formula", "viewer_frame", "language"]
source_suffix = {".md": "myst-nb"}
language = "en"
locale_dirs = [str(HERE.parents[1] / "build/docs/locale")]
gettext_compact = False
gettext_uuid = False
translation_progress_classes = True
if tags.has("lessons"):  # type: ignore[name-defined]
    include_patterns = ["index.md", f"{staging.LESSONS}/**"]
    # Other pages are in English only, and without execution no kernel names the language of a cell.
    suppress_warnings = ["toc.excluded", "toc.not_readable", "myst-nb.lexer"]

myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parents[1] / "build/docs/cells")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

html_theme = "furo"
html_title = f"Foveate {version}"
html_static_path = [str(HERE / "static"), str(HERE / "fonts")]
html_css_files = ["site.css"]
html_js_files = [("version.js", {"defer": "defer"})]
html_show_sphinx = False
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
templates_path = [str(HERE / "templates")]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/languages.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
_LATIN = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans'"
_TEXT = f"Vazirmatn, {_LATIN}, 'Noto Sans CJK SC', 'DejaVu Sans', sans-serif"
html_theme_options = {
    "light_css_variables": {
        "font-stack": _TEXT,
        "font-stack--headings": _TEXT,
        "color-brand-primary": "#215a97",
        "color-brand-content": "#215a97",
    },
    "dark_css_variables": {"color-brand-primary": "#8cc4f2", "color-brand-content": "#8cc4f2"},
}
pygments_style, pygments_dark_style = "tango", "github-dark"
