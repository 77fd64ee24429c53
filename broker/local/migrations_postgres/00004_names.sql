-- +goose Up
-- New names may not differ from others by the case of the letters A to Z alone, which is what lower knows in this
-- collation. Not unique: such names were let in before.
CREATE INDEX users_by_folded_name ON users (lower(username));

-- +goose Down
DROP INDEX users_by_folded_name;
