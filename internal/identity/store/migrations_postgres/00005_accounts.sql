-- +goose Up
-- Wrong passwords of an account that reached the user base. Names are keyed hashes. last is Unix
-- nanoseconds.
CREATE TABLE account_failures (
	account  BYTEA PRIMARY KEY,
	failures INTEGER NOT NULL,
	last     BIGINT NOT NULL
) WITH (fillfactor = 50);

-- Where accounts have logged in. Both names are keyed hashes. used is Unix nanoseconds.
CREATE TABLE trusted_locations (
	account  BYTEA NOT NULL,
	location BYTEA NOT NULL,
	used     BIGINT NOT NULL,
	PRIMARY KEY (account, location)
) WITH (fillfactor = 80);

CREATE INDEX trusted_locations_by_use ON trusted_locations (used);

-- +goose Down
DROP TABLE trusted_locations;
DROP TABLE account_failures;
