-- +goose Up
-- The counter of the newest key document: an older one is refused.
CREATE TABLE key_floor (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	counter BIGINT NOT NULL
);

-- +goose Down
DROP TABLE key_floor;
