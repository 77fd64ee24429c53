-- +goose Up
-- How far the audit log was sent to each receiver, and which process sends it. Times are Unix
-- microseconds.
CREATE TABLE audit_exports (
	name    TEXT COLLATE "C" PRIMARY KEY,
	seq     BIGINT NOT NULL,
	hash    BYTEA NOT NULL,
	sent_at BIGINT NOT NULL,
	holder  TEXT NOT NULL,
	until   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE audit_exports;
