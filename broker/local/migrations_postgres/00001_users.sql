-- +goose Up
-- Lists and limits are JSON. Times are Unix seconds.
CREATE TABLE users (
	id           TEXT COLLATE "C" PRIMARY KEY,
	username     TEXT COLLATE "C" NOT NULL UNIQUE,
	password     TEXT NOT NULL, -- PHC string
	disabled     BOOLEAN NOT NULL DEFAULT FALSE,
	scopes       TEXT NOT NULL,
	entitlements TEXT NOT NULL,
	limits       TEXT NOT NULL,
	version      BIGINT NOT NULL DEFAULT 1,
	created_at   BIGINT NOT NULL
);

CREATE TABLE accounts (
	id          TEXT COLLATE "C" PRIMARY KEY,
	user_id     TEXT COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	number      TEXT COLLATE "C" NOT NULL UNIQUE,
	name        TEXT NOT NULL,
	type        TEXT NOT NULL,
	status      TEXT NOT NULL,
	currency    TEXT NOT NULL,
	currencies  TEXT NOT NULL,
	roles       TEXT NOT NULL,
	permissions TEXT NOT NULL,
	is_default  BOOLEAN NOT NULL,
	created_at  BIGINT NOT NULL
);

CREATE INDEX accounts_by_user ON accounts (user_id, number);

-- users_changes counts the transactions that changed rights, whoever made them: what was notified while a gateway
-- was not connected is found by it.
CREATE TABLE users_changes (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	n   BIGINT NOT NULL,
	by  BIGINT NOT NULL -- the transaction that was counted last
) WITH (fillfactor = 10);
INSERT INTO users_changes (one, n, by) VALUES (1, 0, 0);

-- +goose StatementBegin
CREATE FUNCTION rueda_users_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE users_changes SET n = n + 1, by = txid_current() WHERE one = 1 AND by <> txid_current();
	PERFORM pg_notify('rueda_users', '');
	RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Deferred to the commit, so that the row of the count is the last to be locked.
CREATE CONSTRAINT TRIGGER users_changed AFTER INSERT OR UPDATE OR DELETE ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();

-- +goose Down
DROP TABLE accounts;
DROP TABLE users;
DROP TABLE users_changes;
DROP FUNCTION rueda_users_changed();
