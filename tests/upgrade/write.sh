#!/usr/bin/env bash
# Writes the data folder of a release: write.sh RUEDA COMMIT FOLDER, with RUEDA the released binary,
# built from COMMIT.
#
# The folder has users, an account, a signing key and a journal with one closed trading day of two
# simulated instruments. expected.json beside it holds what the release answered about them, so that
# the test of a later release can compare. Run it once, when a release is made, and commit the result.
set -euo pipefail
rueda=$(realpath "$1")
commit=$2
out=$3
here=$(cd "$(dirname "$0")" && pwd)
[ ! -e "$out" ] || { echo "$out exists already" >&2; exit 1; }
mkdir -p "$out"
data=$out/data

printf 'correct horse\n' | "$rueda" user add ana --password-stdin --data "$data" >&2
printf 'battery staple\n' | "$rueda" user add bot --rights quotes --password-stdin --data "$data" >&2
"$rueda" user account add ana 100001 --data "$data" >&2

log=$(mktemp)
"$rueda" dev --data "$data" --listen 127.0.0.1:0 --clock virtual --start 2026-11-24 --days 1 --seed 7 \
	--speed 1000 --instruments 2 --calendar "$here/calendar.json" >"$log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || true; rm -f "$log"' EXIT
for _ in $(seq 300); do grep -q 'The last trading day has ended' "$log" && break; sleep 0.2; done
grep -q 'The last trading day has ended' "$log" || { cat "$log" >&2; exit 1; }
for _ in $(seq 300); do [ -e "$data/journal/2026-11-24/day.idx" ] && break; sleep 0.2; done
url=$(grep -o 'http://127.0.0.1:[0-9]*' "$log" | head -1)

token=$(curl -sf "$url/auth/token" -H 'Content-Type: application/json' \
	-d '{"grant_type":"password","username":"ana","password":"correct horse"}' | jq -r .data.access_token)
get() { curl -sf "$url$1" -H "Authorization: Bearer $token" -H 'Accept: application/json'; }
first=$(get '/market/instruments' | jq -r '.data.instruments[0].instrument')
id=$(jq -rn --arg i "$first" '$i|@uri')
jq -n --arg version "$("$rueda" version | cut -d' ' -f2)" --arg commit "$commit" \
	--arg instrument "$first" \
	--argjson accounts "$(get /broker/accounts | jq .data)" \
	--argjson instruments "$(get /market/instruments | jq '[.data.instruments[].instrument]')" \
	--argjson snapshot "$(get "/market/snapshot?instruments=$id" | jq .data)" \
	--argjson trades "$(get "/market/trades?instrument=$id&limit=20" | jq .data.trades)" \
	--argjson bars "$(get "/market/bars?instrument=$id&interval=1m&limit=20" | jq .data.bars)" \
	--argjson keys "$(curl -sf "$url/.well-known/jwks.json" | jq '[.keys[].kid]')" \
	'{$version, $commit, $instrument, $accounts, $instruments, $keys,
	  epoch: $snapshot.epoch, position: $snapshot.position, $trades, $bars}' >"$out/expected.json"

kill -TERM $pid
wait $pid || true
rm -f "$data/journal/lock"
jq -r '"wrote \(.version) of commit \(.commit): \(.trades | length) trades, \(.bars | length) bars"' "$out/expected.json"
