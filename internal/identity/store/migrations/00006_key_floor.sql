-- +goose Up
-- The counter of the newest key document: an older one is refused.
CREATE TABLE key_floor (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	counter INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE key_floor;
