#!/usr/bin/env bash
# The cluster in containers, and its tests. Bash 3.2 is enough.
#
#   cluster.sh up      secrets, image, containers; waits until all are healthy and says where the pages are
#   cluster.sh down    stops it; VOLUMES=1 removes its state too
#   cluster.sh test    runs the tests that need an engine: PYTEST_ARGS passes through
#
# WORKERS=2, PROFILES="history monitoring upstreams" and the variables of deploy/docker-compose.yml, of the environment
# or of deploy/.env, choose what runs. What is up already goes on, unless one of its settings is another now.
# The tests bring an engine of their own up and down where none answers and DOCKER_LAB names a script that can. Exit
# code 77: they did not run for want of one; with DOCKER_REQUIRED=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

PY=.venv/bin/python
COMPOSE_FILE=deploy/docker-compose.yml
DOCKER_LAB=${DOCKER_LAB:-../shared/tools/docker-lab.sh}
SKIPPED=77

say() { printf 'cluster: %s\n' "$*"; }
fail() {
    printf 'cluster: failed: %s\n' "$*" >&2
    exit 1
}
step_started=0
step() {
    step_started=$SECONDS
    say "$*"
}
step_done() { say "  done in $((SECONDS - step_started)) s"; }

answers() { docker info >/dev/null 2>&1; }

# The engine's plugin, or the same program of the development dependencies.
compose() {
    local profile
    local command=(docker compose)
    docker compose version >/dev/null 2>&1 || command=(.venv/bin/docker-compose)
    command+=(-f "$COMPOSE_FILE")
    for profile in ${PROFILES:-}; do command+=(--profile "$profile"); done
    "${command[@]}" "$@"
}

# setting NAME DEFAULT: a variable of the environment, else of the file that compose reads by itself.
setting() {
    local value=${!1-}
    if [ -z "$value" ] && [ -f deploy/.env ]; then
        value=$(sed -n "s/^$1=//p" deploy/.env | tail -n1 | sed -e 's/^"\(.*\)"$/\1/' -e "s/^'\(.*\)'$/\1/")
    fi
    printf '%s\n' "${value:-$2}"
}

# The name of the run that is up, if there is one: under another every container would be made anew.
run_id() {
    local container
    container=$(compose ps -q exchange 2>/dev/null | head -n1) || return 0
    [ -n "$container" ] || return 0
    docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$container" | sed -n 's/^DELTABOOK_RUN_ID=//p'
}

# Where a page is, of a service that is up: 127.0.0.1:PORT.
page() { compose port "$1" "$2" 2>/dev/null; }

say_pages() {
    local line name port where
    for line in "dashboard 8000" "spark-master 8080" "spark-history 18080" "prometheus 9090"; do
        name=${line% *} port=${line#* }
        where=$(page "$name" "$port") || continue
        say "  $(printf '%-14s' "$name") http://$where/"
    done
}

up() {
    local started=$SECONDS
    answers || fail "expected a Docker engine, was: $(docker info 2>&1 | tail -n1)"
    local image run
    image=$(setting DELTABOOK_IMAGE deltabook:local)
    run=$(setting DELTABOOK_RUN_ID "$(run_id)")
    DELTABOOK_WORKERS=${WORKERS:-$(setting DELTABOOK_WORKERS 2)}
    DELTABOOK_RUN_ID=${run:-cluster-$(date -u +%Y%m%d-%H%M%S)}
    export DELTABOOK_WORKERS DELTABOOK_RUN_ID
    case " ${PROFILES:-} " in
    *" upstreams "*)
        export DELTABOOK_FEED=${DELTABOOK_FEED-}
        export DELTABOOK_UPSTREAMS=${DELTABOOK_UPSTREAMS-a=/var/lib/deltabook/upstream-a b=/var/lib/deltabook/upstream-b}
        ;;
    esac
    case " ${PROFILES:-} " in
    *" history "*) export DELTABOOK_EVENT_LOG=${DELTABOOK_EVENT_LOG-/var/lib/deltabook/spark/events} ;;
    esac
    # A relative path is one from here, in the file of compose one from there.
    local secrets=${DELTABOOK_SECRETS:-}
    if [ -z "$secrets" ]; then
        secrets=$(setting DELTABOOK_SECRETS ./secrets)
        case $secrets in /*) ;; *) secrets=deploy/${secrets#./} ;; esac
    fi
    step "1/3 secrets in $secrets"
    "$PY" -m deltabook cluster secrets "$secrets"
    DELTABOOK_SECRETS=$(cd "$secrets" && pwd)
    export DELTABOOK_SECRETS
    step_done
    step "2/3 image $image; the first time this downloads about 640 MB"
    docker build -q -f deploy/Dockerfile --build-arg "REVISION=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
        -t "$image" . >/dev/null
    case " ${PROFILES:-} " in *" monitoring "*) compose build -q prometheus ;; esac
    step_done
    step "3/3 containers of run $DELTABOOK_RUN_ID, $DELTABOOK_WORKERS workers, until all are healthy"
    compose up -d --no-build --wait --wait-timeout "${WAIT_SECONDS:-600}" ||
        fail "not every container became healthy; see above (a port that is taken: DELTABOOK_DASHBOARD_PORT and" \
            "its like choose another), docker compose -f $COMPOSE_FILE ps --all, and logs SERVICE"
    step_done
    say "ready after $((SECONDS - started)) s"
    say_pages
}

down() {
    answers || fail "expected a Docker engine, was: $(docker info 2>&1 | tail -n1)"
    local volumes=()
    [ -z "${VOLUMES:-}" ] || volumes=(--volumes)
    # All profiles: what runs may have been started with others than are named now.
    local PROFILES="history monitoring upstreams"
    # In order, and with the scratch of workers, volumes without a name, which `down` alone would leave behind.
    compose stop --timeout 30
    compose rm --force --volumes
    compose down --remove-orphans ${volumes[@]+"${volumes[@]}"}
}

# An engine for the tests: the one that answers, or one of the script's. Returns 77 without either.
lab=""
find_engine() {
    answers && return 0
    if [ -x "$DOCKER_LAB" ]; then
        say "no engine answers; $DOCKER_LAB brings one up"
        local rc=0
        LAB=${LAB:-/tmp/deltabook-dockerlab} "$DOCKER_LAB" up || rc=$?
        if [ "$rc" = 0 ]; then
            lab=${LAB:-/tmp/deltabook-dockerlab}
            # shellcheck disable=SC1091
            . "$lab/env"
            answers && return 0
        elif [ "$rc" != "$SKIPPED" ]; then
            return "$rc"
        fi
    fi
    say "NOT RUN: the tests that need a Docker engine: none answers, $DOCKER_LAB brought none up"
    [ -z "${DOCKER_REQUIRED:-}" ] || return 1
    return "$SKIPPED"
}
leave_engine() { [ -z "$lab" ] || LAB=$lab "$DOCKER_LAB" down; }

run_tests() {
    trap leave_engine EXIT
    local rc=0
    find_engine || return $?
    # In one process: clusters of several tests at a time would share the machine's memory.
    "$PY" -m pytest -n0 -m docker ${PYTEST_ARGS:-} tests/cluster || rc=$?
    say "figures: artifacts/cluster/report.json ($PY -m tests.cluster.report)"
    return "$rc"
}

case ${1:-} in
up) up ;;
down) down ;;
test) run_tests ;;
*) fail "expected up, down or test, was '${1:-}'" ;;
esac
