-- +goose Up
-- Wrong passwords of an account that reached the user base. Names are keyed hashes. last is Unix
-- nanoseconds.
CREATE TABLE account_failures (
	account  BLOB PRIMARY KEY,
	failures INTEGER NOT NULL,
	last     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where accounts have logged in. Both names are keyed hashes. used is Unix nanoseconds.
CREATE TABLE trusted_locations (
	account  BLOB NOT NULL,
	location BLOB NOT NULL,
	used     INTEGER NOT NULL,
	PRIMARY KEY (account, location)
) STRICT, WITHOUT ROWID;

CREATE INDEX trusted_locations_by_use ON trusted_locations (used);

-- +goose Down
DROP TABLE trusted_locations;
DROP TABLE account_failures;
