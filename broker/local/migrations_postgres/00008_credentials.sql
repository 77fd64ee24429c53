-- +goose Up
-- must_change is set for a password that its user must change before the next login. wrong counts the wrong one-time
-- passwords in a row that came with the right password.
ALTER TABLE users ADD COLUMN must_change BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE second_factors ADD COLUMN wrong INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE second_factors DROP COLUMN wrong;
ALTER TABLE users DROP COLUMN must_change;
