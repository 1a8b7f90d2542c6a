#!/usr/bin/env bash
# The cluster in containers, and its tests. Bash 3.2 is enough.
#
#   cluster.sh up      creates secrets, image and containers, waits until all are healthy, prints addresses of the pages
#   cluster.sh down    stops and removes the containers; VOLUMES=1 removes their state too
#   cluster.sh test    runs the tests that need a Docker engine; PYTEST_ARGS are arguments for pytest
#
# WORKERS=2, PROFILES="history monitoring upstreams" and the variables of deploy/docker-compose.yml, from the
# environment or from deploy/.env, choose what runs. A running container is kept unless one of its settings has changed.
# If no engine answers, the tests start and stop one with the script that DOCKER_LAB names. Without such a script they
# do not run, and the exit code is 77; with DOCKER_REQUIRED=1 that is a failure.
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

# Runs Docker Compose: the plugin of the engine, or else the program in .venv.
compose() {
    local profile
    local command=(docker compose)
    docker compose version >/dev/null 2>&1 || command=(.venv/bin/docker-compose)
    command+=(-f "$COMPOSE_FILE")
    for profile in ${PROFILES:-}; do command+=(--profile "$profile"); done
    "${command[@]}" "$@"
}

# setting NAME DEFAULT: prints a variable of the environment, else of deploy/.env, which compose reads itself.
setting() {
    local value=${!1-}
    if [ -z "$value" ] && [ -f deploy/.env ]; then
        value=$(sed -n "s/^$1=//p" deploy/.env | tail -n1 | sed -e 's/^"\(.*\)"$/\1/' -e "s/^'\(.*\)'$/\1/")
    fi
    printf '%s\n' "${value:-$2}"
}

# Prints the id of the present run, if there is one: with another id, compose would recreate every container.
run_id() {
    local container
    container=$(compose ps -q exchange 2>/dev/null | head -n1) || return 0
    [ -n "$container" ] || return 0
    docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$container" | sed -n 's/^DELTABOOK_RUN_ID=//p'
}

# page SERVICE PORT: prints the address 127.0.0.1:PORT at which the page of a running service is published.
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
    # A relative path in the environment is relative to this folder; one in deploy/.env is relative to deploy.
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
        fail "not every container became healthy; see above (if a port is in use, DELTABOOK_DASHBOARD_PORT and" \
            "similar variables choose another), docker compose -f $COMPOSE_FILE ps --all, and logs SERVICE"
    step_done
    say "ready after $((SECONDS - started)) s"
    say_pages
}

down() {
    answers || fail "expected a Docker engine, was: $(docker info 2>&1 | tail -n1)"
    local volumes=()
    [ -z "${VOLUMES:-}" ] || volumes=(--volumes)
    # All profiles, since the containers may have been started with other profiles than those named now.
    local PROFILES="history monitoring upstreams"
    # `rm --volumes` removes the anonymous volumes with the workers' scratch files, which `down` alone would leave.
    compose stop --timeout 30
    compose rm --force --volumes
    compose down --remove-orphans ${volumes[@]+"${volumes[@]}"}
}

# Finds an engine for the tests: the one that answers, or one that the script starts. Returns 77 if there is neither.
lab=""
find_engine() {
    answers && return 0
    if [ -x "$DOCKER_LAB" ]; then
        say "no engine answers; $DOCKER_LAB starts one"
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
    say "NOT RUN: the tests that need a Docker engine: none answers, and $DOCKER_LAB has started none"
    [ -z "${DOCKER_REQUIRED:-}" ] || return 1
    return "$SKIPPED"
}
leave_engine() { [ -z "$lab" ] || LAB=$lab "$DOCKER_LAB" down; }

run_tests() {
    trap leave_engine EXIT
    local rc=0
    find_engine || return $?
    # The tests run in one process, because the clusters of several tests together would need too much memory.
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
