-- +goose Up
-- Lists and limits are JSON. Times are Unix seconds.
CREATE TABLE users (
	id           TEXT PRIMARY KEY,
	username     TEXT NOT NULL UNIQUE,
	password     TEXT NOT NULL, -- PHC string
	disabled     INTEGER NOT NULL DEFAULT 0,
	scopes       TEXT NOT NULL,
	entitlements TEXT NOT NULL,
	limits       TEXT NOT NULL,
	version      INTEGER NOT NULL DEFAULT 1,
	created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
	id          TEXT PRIMARY KEY,
	user_id     TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	number      TEXT NOT NULL UNIQUE,
	name        TEXT NOT NULL,
	type        TEXT NOT NULL,
	status      TEXT NOT NULL,
	currency    TEXT NOT NULL,
	currencies  TEXT NOT NULL,
	roles       TEXT NOT NULL,
	permissions TEXT NOT NULL,
	is_default  INTEGER NOT NULL,
	created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX accounts_by_user ON accounts (user_id, number);

-- +goose Down
DROP TABLE accounts;
DROP TABLE users;
