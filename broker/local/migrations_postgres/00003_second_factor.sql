-- +goose Up
-- secret is encrypted with a key that is not in this database. last_step is the newest time step, of 30 seconds since
-- 1970, whose one-time password was used: none is good twice.
CREATE TABLE second_factors (
	user_id    TEXT COLLATE "C" PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
	secret     TEXT NOT NULL,
	last_step  BIGINT NOT NULL DEFAULT 0,
	created_at BIGINT NOT NULL
);

-- Recovery codes that were not used; hash is SHA-256 in hex.
CREATE TABLE recovery_codes (
	user_id TEXT COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	hash    TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (user_id, hash)
);

-- +goose Down
DROP TABLE recovery_codes;
DROP TABLE second_factors;
