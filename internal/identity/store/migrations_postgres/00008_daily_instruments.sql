-- +goose Up
-- The instruments that users with limited rights have requested over REST on a UTC day.
CREATE TABLE daily_instruments (
	day         TEXT COLLATE "C" NOT NULL, -- 2026-11-20
	user_id     TEXT COLLATE "C" NOT NULL,
	entitlement TEXT COLLATE "C" NOT NULL, -- what it grants
	instrument  TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (day, user_id, entitlement, instrument)
);

-- +goose Down
DROP TABLE daily_instruments;
