#!/bin/sh
# Prints the quote of an instrument, then its trades as they happen. Needs curl and jq. The clients
# for bots, in Python, TypeScript and Go, also resume after a lost connection: {{.Clients}}
set -eu
url=${RUEDA_URL:-{{.URL}}}
username=${RUEDA_USERNAME:-{{.User}}}
password=${RUEDA_PASSWORD:-{{.Password}}}
instrument=${1:-'{{.Instrument}}'}

token=$(jq -n --arg u "$username" --arg p "$password" '{grant_type: "password", username: $u, password: $p}' |
	curl -sSf "$url/auth/token" -H 'Content-Type: application/json' -d @- | jq -r .data.access_token)

# The header is read from standard input, so that the token is not visible in the list of processes.
get() {
	printf 'Authorization: Bearer %s\n' "$token" | curl -sSfGN "$url$1" -H @- --data-urlencode "$2=$instrument" -H "Accept: $3"
}

get /market/snapshot instruments application/json | jq -c '.data.instruments[0].Q'
get /market/stream trades application/x-ndjson | jq -c --unbuffered 'select(.type == "T") | {N, P, Z}'
