-- +goose Up
-- secret is encrypted with a key that is not in this database. last_step is the newest time step, of 30 seconds since
-- 1970, whose one-time password was used: none is good twice.
CREATE TABLE second_factors (
	user_id    TEXT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
	secret     TEXT NOT NULL,
	last_step  INTEGER NOT NULL DEFAULT 0,
	created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Recovery codes that were not used; hash is SHA-256 in hex.
CREATE TABLE recovery_codes (
	user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	hash    TEXT NOT NULL,
	PRIMARY KEY (user_id, hash)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE recovery_codes;
DROP TABLE second_factors;
