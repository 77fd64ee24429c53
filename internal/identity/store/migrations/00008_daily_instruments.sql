-- +goose Up
-- The instruments that users with limited rights have requested over REST on a UTC day.
CREATE TABLE daily_instruments (
	day         TEXT NOT NULL, -- 2026-11-20
	user_id     TEXT NOT NULL,
	entitlement TEXT NOT NULL, -- what it grants
	instrument  TEXT NOT NULL,
	PRIMARY KEY (day, user_id, entitlement, instrument)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE daily_instruments;
