#!/bin/sh
# packages.sh VENV LOCK: makes a virtual environment with the locked packages.
# The tools that build packages are in a second environment, /opt/build, which is not part of the image.
set -eu
venv=$1 lock=$2
build_tools="hatchling packaging pathspec pluggy setuptools tomlkit trove-classifiers"

python3 -m venv /opt/build
python3 -m venv --without-pip "$venv"

# locked 0 NAMES: prints the lines of the lock that belong to these packages; locked 1 NAMES: prints all other lines.
locked() {
    awk -v names=" $2 " -v others="$1" \
        '/^[A-Za-z0-9]/ { split($1, part, "=="); keep = (index(names, " " part[1] " ") > 0) != others } keep' "$lock"
}
locked 0 "$build_tools" >/tmp/build.lock
locked 1 "hatchling pathspec pluggy setuptools tomlkit trove-classifiers" >/tmp/run.lock
/opt/build/bin/python -m pip install -q --require-hashes -r /tmp/build.lock
# Source packages are built by the tools in /opt/build, which are therefore put on the path of the other environment.
PYTHONPATH=$(/opt/build/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
    /opt/build/bin/python -m pip --python "$venv/bin/python" install -q --require-hashes --no-build-isolation \
    --use-pep517 \
    -r /tmp/run.lock

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The environment imports this project from /opt/project, where the Dockerfile installs it.
echo "/opt/project/${site#"$venv"/}" >"$site/deltabook.pth"
