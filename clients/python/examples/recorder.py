"""Appends trades to a file, and continues after a restart without a loss.

recorder.py [URL USER PASSWORD INSTRUMENT FILE [NUMBER OF TRADES]]

FILE has the messages, one in a line. A range that is lost is a line of its own. FILE.state has what
was written, and FILE.tokens the tokens. After a crash, FILE may have a trade twice.
"""

import json
import os
import sys
from pathlib import Path
from typing import Optional

import rueda


def load(path: Path) -> Optional[rueda.Checkpoint]:
    if not path.exists():
        return None
    return rueda.Checkpoint.from_dict(json.loads(path.read_text()))


def save(path: Path, checkpoint: rueda.Checkpoint) -> None:
    """Replaces the file in one step, so that a crash leaves the old or the new one."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(checkpoint.to_dict()))
    os.replace(temporary, path)


def main(
    url: str = "http://127.0.0.1:8080",
    user: str = "demo",
    password: str = "demo",
    instrument: str = "GGAL|BYMA|24hs",
    file: str = "trades.jsonl",
    count: str = "",
) -> None:
    state = Path(file + ".state")
    tokens = rueda.FileStore(file + ".tokens")
    written = 0
    with open(file, "a", encoding="utf-8") as out, rueda.Client(
        url, user, password, tokens=tokens, resume=load(state), overflow=rueda.Overflow.BLOCK
    ) as client:
        client.subscribe(rueda.Subscriptions(trades=[instrument]))
        for event in client.events():
            if written % 100 == 0 or count and written >= int(count):
                out.flush()
                os.fsync(out.fileno())
                checkpoint = client.checkpoint()  # without this event
                if checkpoint.epoch:
                    save(state, checkpoint)
            if count and written >= int(count):
                return
            if isinstance(event, rueda.Trade):
                print(json.dumps(event.raw, default=str), file=out)
                written += 1
            elif isinstance(event, rueda.Lost):
                lost = {"lost": [event.first, event.last], "reason": event.reason}
                print(json.dumps(lost), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
