#!/usr/bin/env bash
# Copies the dashboards and alert rules into the chart, which can only read files of its own folder.
# With --check it changes nothing, and fails if a copy is missing, outdated or left over.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
    '') check=false ;;
    --check) check=true ;;
    *)
        echo "usage: scripts/sync-chart-files.sh [--check]" >&2
        exit 2
        ;;
esac

# FROM PATTERN TO
sync() {
    local from=$1 pattern=$2 to=$3 stale=()
    local file
    for file in "$from"/$pattern "$to"/$pattern; do
        [[ -e $file ]] || continue
        cmp --silent "$from/${file##*/}" "$to/${file##*/}" || stale+=("$to/${file##*/}")
    done
    if ((${#stale[@]} == 0)); then
        return 0
    fi
    if $check; then
        printf 'sync-chart-files: %s differs from its source; run scripts/sync-chart-files.sh\n' "${stale[@]}" >&2
        return 1
    fi
    mkdir -p "$to"
    rm -f "$to"/$pattern
    cp "$from"/$pattern "$to/"
}

failed=0
sync grafana/dashboards '*.json' helm/holdfast/files/dashboards || failed=1
sync grafana/alerts '*.yaml' helm/holdfast/files/alerts || failed=1
exit $failed
