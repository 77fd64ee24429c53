#!/usr/bin/env bash
# Builds the program of a commit with a clock that can be set: build.sh COMMIT FILE. The clock of
# FILE is that of the machine plus RUEDA_SECONDS_AHEAD, so that a day can end while it runs. Only
# time.Now of the standard library is replaced. The source of the program is that of the commit.
set -euo pipefail
commit=$1
out=$(realpath -m "$2")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$commit"
std=$(go env GOROOT)/src/time
sed 's/sec, nsec, mono := runtimeNow()/&; sec += ahead/' "$std/time.go" >"$work/time.go"
grep -q 'sec += ahead' "$work/time.go"
cat >"$work/ahead.go" <<'GO'
package time

import "syscall"

var ahead = func() (n int64) {
	text, _ := syscall.Getenv("RUEDA_SECONDS_AHEAD")
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}()
GO
printf '{"Replace":{"%s":"%s","%s":"%s"}}' "$std/time.go" "$work/time.go" "$std/ahead.go" "$work/ahead.go" >"$work/overlay.json"
cd "$work/tree"
go build -trimpath -overlay "$work/overlay.json" -o "$out" ./cmd/rueda
