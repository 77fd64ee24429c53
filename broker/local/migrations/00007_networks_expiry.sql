-- +goose Up
-- networks is a JSON list of networks in CIDR notation, from which a user may log in; empty: from anywhere. expires_at is
-- when an account ends, in Unix seconds; 0: never.
ALTER TABLE users ADD COLUMN networks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE users ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN networks TEXT NOT NULL DEFAULT '[]';

DROP TRIGGER users_altered;
-- +goose StatementBegin
CREATE TRIGGER users_altered AFTER UPDATE OF id, username, disabled, scopes, entitlements, limits, version, networks, expires_at ON users BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER users_altered;
-- +goose StatementBegin
CREATE TRIGGER users_altered AFTER UPDATE OF id, username, disabled, scopes, entitlements, limits, version ON users BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd
ALTER TABLE groups DROP COLUMN networks;
ALTER TABLE users DROP COLUMN expires_at;
ALTER TABLE users DROP COLUMN networks;
