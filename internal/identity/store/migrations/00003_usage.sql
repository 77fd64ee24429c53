-- +goose Up
-- What each user used of a market in a month. first and last are Unix microseconds.
CREATE TABLE usage (
	month       TEXT NOT NULL,    -- 2026-11
	user_id     TEXT NOT NULL,
	market      TEXT NOT NULL,
	level       TEXT NOT NULL,
	delay       INTEGER NOT NULL, -- minutes
	days        INTEGER NOT NULL, -- bit d-1: used on day d
	connections INTEGER NOT NULL, -- most at a time
	first       INTEGER NOT NULL,
	last        INTEGER NOT NULL,
	PRIMARY KEY (month, user_id, market, level, delay)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE usage;
