#!/bin/sh
# Make or bring up to date the environment .venv, at the versions of constraints.txt. Run it through `make`.
#   tools/setup.sh        every wheel of the workspace (editable) and the tools of the dependency group `dev`
#   tools/setup.sh WHEEL  only this wheel and those of the workspace that it needs, for `make demo`: what is there stays
#   PYTHON  interpreter to use (default: the first of python3.13, python3.12, python3.11, python3 that is new enough)
#   UV      uv executable; empty: use venv and pip
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
-*)
    sed -n '2,/^set/{s/^# \{0,1\}//p;}' tools/setup.sh
    case $1 in -h | --help) exit 0 ;; esac
    exit 2
    ;;
esac
wheel=${1:-}
venv=.venv
bin=bin
if [ "${OS:-}" = Windows_NT ]; then bin=Scripts; fi
venv_python=$venv/$bin/python

is_new_enough() { # a launcher may exist and yet fail, so it is run
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

python=$(find_python)
if [ -z "$python" ] && { [ -z "${UV:-}" ] || [ -n "${PYTHON:-}" ]; }; then
    is=${PYTHON:+"$PYTHON is not"}
    fail "Python 3.11 or newer is needed, and ${is:-none of python3.13, python3.12, python3.11, python3 is}. \
Install one, or name it: make PYTHON=/path/to/python3"
fi

if [ -n "${UV:-}" ]; then
    echo "setup: $venv with $UV${wheel:+, for $wheel}"
    is_new_enough "$venv_python" || "$UV" venv --quiet --clear --python "${python:->=3.11}" "$venv"
    install="$UV pip install --quiet --python $venv_python"
else
    echo "setup: $venv with $python -m venv and pip${wheel:+, for $wheel}; the first time takes a while"
    if ! is_new_enough "$venv_python" || ! "$venv_python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --clear "$venv" ||
            fail "$python cannot make environments (on Debian and Ubuntu: apt install python3-venv)"
    fi
    # What is imported is compiled then: pip would compile all modules of all wheels, a quarter of the time and of the room.
    install="$venv_python -m pip install --quiet --disable-pip-version-check --no-input --no-compile"
fi

if [ -n "$wheel" ]; then
    folders=$("$venv_python" tools/wheels.py --needed-by "$wheel")
    editables="--editable ."
    tools=
else
    folders=$("$venv_python" tools/wheels.py --paths)
    editables="--editable .[all]"
    tools="--group dev"
fi
for folder in $folders; do
    editables="$editables --editable $folder"
done

# The build tools come first, pinned like everything else, so that no wheel of ours needs a build environment of its own.
# shellcheck disable=SC2086 # $install, $editables and $tools are lists of words
$install --constraint constraints.txt pip hatchling editables
# shellcheck disable=SC2086
$install --constraint constraints.txt --no-build-isolation $editables $tools
