-- +goose Up
-- at is Unix microseconds. Rows are chained by hash, and never changed.
CREATE TABLE audit (
	seq     INTEGER PRIMARY KEY,
	hash    BLOB NOT NULL,
	at      INTEGER NOT NULL,
	kind    TEXT NOT NULL,
	actor   TEXT NOT NULL,
	user_id TEXT NOT NULL,
	family  TEXT NOT NULL,
	address TEXT NOT NULL,
	client  TEXT NOT NULL,
	detail  TEXT NOT NULL
) STRICT;

-- Where the chain begins once old rows were deleted.
CREATE TABLE audit_start (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	seq  INTEGER NOT NULL,
	hash BLOB NOT NULL
) STRICT;

-- +goose Down
DROP TABLE audit_start;
DROP TABLE audit;
