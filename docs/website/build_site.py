"""Builds the documentation site in four languages: `make docs`.

    python docs/website/build_site.py                   # the site, into build/docs/site/VERSION
    python docs/website/build_site.py --site FOLDER     # into FOLDER/VERSION, beside the versions that are there
    python docs/website/build_site.py --translations    # first renew the files of translators in docs/locale

Needs the packages of docs/website/requirements.txt. A warning, a failing cell, a broken link, a request to another
host, or a translation that is behind its lesson ends it with an error.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import notebook  # noqa: E402
import reference  # noqa: E402
import version_list  # noqa: E402
from inspection import problems  # noqa: E402
from staging import LANGUAGES, LOCALE, ROOT, stage, version  # noqa: E402
from translation import behind, renew  # noqa: E402

WORK = ROOT / "build/docs"
SOURCE, TEMPLATES, CELLS = WORK / "source", WORK / "gettext", WORK / "cells"
FIRST_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Foveate</title>
<script>
const known = { fa: "fa", ru: "ru", zh: "zh_CN" };
const first = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each === "en" || each in known);
location.replace(`${known[first] ?? "en"}/index.html`);
</script>
<a href="en/index.html">English</a> <a href="fa/index.html" lang="fa">فارسی</a>
<a href="ru/index.html" lang="ru">Русский</a> <a href="zh_CN/index.html" lang="zh">中文</a></html>
"""


def sphinx(builder: str, language: str, out: Path, *options: str) -> None:
    """Run Sphinx for one language. Warnings are errors."""
    trees = WORK / "doctrees" / f"{builder}-{language}"
    command = [sys.executable, *f"-m sphinx -q -W --keep-going -b {builder}".split(), "-d", str(trees), "-c", str(HERE)]
    command += ["-D", f"language={language}", *options, str(SOURCE), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    # The cells compute too little for several threads, which wait for each other on a busy machine.
    environment["OMP_NUM_THREADS"] = "1"
    subprocess.run(command, check=True, env=environment)


def forget_cells() -> None:
    """Remove the results of cells that another version of the package computed."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src/foveate").rglob("*.*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.read_bytes())
    record = WORK / "cells.sha256"
    if not record.exists() or record.read_text() != digest.hexdigest():
        shutil.rmtree(CELLS, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    record.write_text(digest.hexdigest())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--translations", action="store_true", help="renew docs/locale from the lessons")
    parser.add_argument("--site", type=Path, default=WORK / "site", help="the folder of all versions (%(default)s)")
    arguments = parser.parse_args()
    begin = time.monotonic()
    site = arguments.site.resolve() / version()
    for folder in (SOURCE, site, TEMPLATES, WORK / "doctrees", WORK / "locale"):
        shutil.rmtree(folder, ignore_errors=True)
    forget_cells()
    stage(SOURCE)
    reference.write(SOURCE / "reference")
    sphinx("gettext", "en", TEMPLATES, "-t", "lessons", "-D", "nb_execution_mode=off")
    if arguments.translations:
        renew(TEMPLATES)
    stale = list(behind(TEMPLATES))
    for language in LANGUAGES:
        print(f"== {LANGUAGES[language]}, {time.monotonic() - begin:.0f} s", flush=True)
        if language != "en":
            # Sphinx writes beside the files that it reads.
            shutil.copytree(LOCALE / language, WORK / "locale" / language)
        sphinx("html", language, site / language, *(() if language == "en" else ("-t", "lessons")))
    shutil.rmtree(site / "jupyter_execute")
    notebook.write(site)
    (site / "index.html").write_text(FIRST_PAGE, encoding="utf-8")
    version_list.write(site.parent)
    pagefind = ["-m", "pagefind", "--site", str(site), "--glob", "*/**/*.html", "--root-selector", "article"]
    pagefind += ["--exclude-selectors", ".headerlink", "--quiet"]
    subprocess.run([sys.executable, *pagefind], check=True)
    complaints = [*stale, *problems(site)]
    print("\n".join(complaints), file=sys.stderr)
    print(f"{site}: {sum(1 for _ in site.rglob('*.html'))} pages in {time.monotonic() - begin:.0f} s")
    return min(len(complaints), 1)


if __name__ == "__main__":
    sys.exit(main())
