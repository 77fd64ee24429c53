-- +goose Up
-- Times are Unix nanoseconds.
CREATE TABLE families (
	id           TEXT PRIMARY KEY,
	user_id      TEXT NOT NULL,
	user_version INTEGER NOT NULL,
	key_id       TEXT NOT NULL, -- names a secret of the key file
	seed         BLOB NOT NULL,
	created_at   INTEGER NOT NULL,
	used_at      INTEGER NOT NULL,
	address      TEXT NOT NULL,
	client       TEXT NOT NULL,
	revoked_at   INTEGER,
	revoked_for  TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX families_by_user ON families (user_id);
CREATE INDEX families_by_revocation ON families (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE refresh_tokens (
	hash       BLOB PRIMARY KEY, -- SHA-256; the token itself is nowhere
	parent     BLOB,             -- NULL: the first of its family
	family     TEXT NOT NULL REFERENCES families (id) ON DELETE CASCADE,
	issued_at  INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	dead_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX refresh_tokens_by_family ON refresh_tokens (family);
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

-- +goose Down
DROP TABLE refresh_tokens;
DROP TABLE families;
