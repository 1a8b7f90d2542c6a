#!/usr/bin/env bash
# Makes a release of the version in deltabook/__init__.py: builds the wheel and the source archive in dist/, tries the
# wheel in a clean environment and an empty folder, and adds the section of the version to CHANGELOG.md. Nothing is
# uploaded, committed or tagged.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
version=$("$python" -c 'import deltabook; print(deltabook.__version__)')
work=$(mktemp -d "${TMPDIR:-/tmp}/deltabook-release.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" scripts/changelog.py --check "$version"

echo "release: building $version"
rm -rf dist
"$python" -m hatchling build -d dist >/dev/null
wheel=dist/deltabook-$version-py3-none-any.whl
archive=dist/deltabook-$version.tar.gz
ls -l "$wheel" "$archive"

echo "release: a wheel made of the archive has the same files"
mkdir "$work/unpacked"
tar -xzf "$archive" -C "$work/unpacked"
(cd "$work/unpacked/deltabook-$version" && "$python" -m hatchling build -t wheel -d "$work/again" >/dev/null)
"$python" -m zipfile -l "$wheel" | awk 'NR > 1 {print $1}' | sort >"$work/files"
"$python" -m zipfile -l "$work/again/$(basename "$wheel")" | awk 'NR > 1 {print $1}' | sort | diff "$work/files" -

if "$python" -m twine --version >/dev/null 2>&1; then
    "$python" -m twine check --strict "$wheel" "$archive"
else
    echo "release: twine is not installed; it would check that the description can be rendered"
fi

echo "release: trying the wheel in a clean environment"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$PWD/$wheel"
mkdir "$work/empty"
(
    cd "$work/empty"
    unset PYTHONPATH
    PATH=$work/venv/bin:$PATH
    test "$(deltabook --version)" = "deltabook, version $version"
    deltabook new strategy trial
    next=$(sed -n 's/^    \(deltabook backtest .*\)/\1/p' trial.py)
    $next
    deltabook demo --no-spark --seconds 5 | tail -n 1
)

"$python" scripts/changelog.py "$version"
echo "release: $version is in dist/, and CHANGELOG.md has its section; commit it and tag v$version"
