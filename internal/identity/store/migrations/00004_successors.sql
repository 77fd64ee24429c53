-- +goose Up
-- expires_at is from now on the end of the last successor, if that is later than the token's own
-- end: the row is needed to recognize its successors, which have no rows before they are used.
ALTER TABLE refresh_tokens ADD COLUMN valid_until INTEGER; -- NULL: expires_at
ALTER TABLE refresh_tokens ADD COLUMN successor BLOB;      -- the first one that was used; NULL: none

-- +goose Down
ALTER TABLE refresh_tokens DROP COLUMN successor;
ALTER TABLE refresh_tokens DROP COLUMN valid_until;
