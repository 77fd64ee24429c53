"""Prints the quote of an instrument, then its trades as they happen.

It needs Python 3.9 or later and no packages. It does not resume after a lost connection. For a
bot, use package rueda, which does: {{.Clients}} has the command that installs it.
"""
import json
import os
import urllib.parse
import urllib.request
from decimal import Decimal

url = os.environ.get("RUEDA_URL") or "{{.URL}}"
username = os.environ.get("RUEDA_USERNAME", "{{.User}}")
password = os.environ.get("RUEDA_PASSWORD", "{{.Password}}")
instrument = "{{.Instrument}}"

login = json.dumps({"grant_type": "password", "username": username, "password": password})
request = urllib.request.Request(url + "/auth/token", login.encode(), {"Content-Type": "application/json"})
with urllib.request.urlopen(request, timeout=30) as answer:
    token = json.load(answer)["data"]["access_token"]


def get(path, **query):
    request = urllib.request.Request(url + path + "?" + urllib.parse.urlencode(query))
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Accept", "application/x-ndjson" if path == "/market/stream" else "application/json")
    return urllib.request.urlopen(request, timeout=60)


with get("/market/snapshot", instruments=instrument) as answer:
    quote = json.load(answer, parse_float=Decimal)["data"]["instruments"][0].get("Q", {})
    print("quote", quote.get("BP"), quote.get("AP"), flush=True)

with get("/market/stream", trades=instrument) as stream:
    for line in stream:
        if line.strip():
            message = json.loads(line, parse_float=Decimal)
            if message.get("type") == "T":
                print("trade", message["N"], message["P"], message["Z"], flush=True)
