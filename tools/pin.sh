#!/bin/sh
# Write constraints.txt: one version of every package that any wheel, extra or group of the workspace can need,
# the same for every supported Python and platform. Needs uv. Run it through `make pin`.
#
# The extras for CUDA 12 and those for CUDA 13 cannot be installed together, so each of the two is resolved with all
# other extras; what only one of them needs, or both in the same version, is pinned.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
new=constraints.txt.new
projects=$("$python" tools/wheels.py --paths | sed "s,$,/pyproject.toml,")
trap 'rm -f "$new" "$new.12" "$new.13"' EXIT

extras_without() {
    # shellcheck disable=SC2086 # $projects is a list of words
    "$python" - "$1" pyproject.toml $projects <<'PYTHON'
import sys, tomllib
without, *files = sys.argv[1:]
for file in files:
    with open(file, "rb") as opened:
        extras = tomllib.load(opened)["project"].get("optional-dependencies", {})
    folder = file.removesuffix("pyproject.toml") or "./"
    kept = [extra for extra in extras if not extra.endswith(without)]
    print(f"-e {folder}[{','.join(kept)}]" if kept else f"-e {folder}")
PYTHON
}

resolve() {
    # What the workspace's wheels need of each other is in the list itself, so nothing is looked for elsewhere.
    extras_without "$2" |
        "${UV:-uv}" pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --upgrade \
            --no-header --no-annotate --group pyproject.toml:dev --group pyproject.toml:hooks \
            --group pyproject.toml:notebooks --group pyproject.toml:release - |
        grep -v '^-e ' > "$new.$1"
}

resolve 12 13
resolve 13 12
"$python" - "$new.12" "$new.13" > "$new" <<'PYTHON'
import re, sys
pins = [dict.fromkeys(open(file, encoding="utf-8").read().splitlines()) for file in sys.argv[1:]]
versions: dict[str, set[str]] = {}
for line in (line for part in pins for line in part):
    versions.setdefault(re.split(r"[=<>! ;]", line)[0], set())
for part in pins:
    for name, found in versions.items():
        lines = "\n".join(line for line in part if re.split(r"[=<>! ;]", line)[0] == name)
        if lines:
            found.add(lines)
print("# The versions that the workspace is tested with, for pip and uv alike. Written by `make pin`.")
for name in sorted(versions):
    if len(versions[name]) == 1:
        print(*versions[name], sep="\n")
    else:
        print(f"# {name}: CUDA 12 and CUDA 13 need different ones.")
PYTHON
mv "$new" constraints.txt
