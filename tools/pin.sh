#!/bin/sh
# Write constraints.txt: one version of every package that any wheel, extra or group of the workspace can need,
# the same for every supported Python and platform. Needs uv. Run it through `make pin`.
set -eu
cd "$(dirname "$0")/.."
new=constraints.txt.new
projects=$("${PYTHON:-python3}" tools/wheels.py --paths | sed "s,$,/pyproject.toml,")
trap 'rm -f "$new"' EXIT
# shellcheck disable=SC2086 # $projects is a list of words
{
    echo "# The versions that the workspace is tested with, for pip and uv alike. Written by \`make pin\`."
    "${UV:-uv}" pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --upgrade \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --all-extras --group dev pyproject.toml $projects | grep -v '^-e '
} > "$new"
mv "$new" constraints.txt
