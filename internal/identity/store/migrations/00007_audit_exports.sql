-- +goose Up
-- How far the audit log was sent to each receiver, and which process sends it. Times are Unix
-- microseconds.
CREATE TABLE audit_exports (
	name    TEXT PRIMARY KEY,
	seq     INTEGER NOT NULL,
	hash    BLOB NOT NULL,
	sent_at INTEGER NOT NULL,
	holder  TEXT NOT NULL,
	until   INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE audit_exports;
