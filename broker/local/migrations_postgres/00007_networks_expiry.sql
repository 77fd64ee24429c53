-- +goose Up
-- networks is a JSON list of networks in CIDR notation, from which a user may log in; empty: from anywhere. expires_at is
-- when an account ends, in Unix seconds; 0: never.
ALTER TABLE users ADD COLUMN networks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE users ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN networks TEXT NOT NULL DEFAULT '[]';
DROP TRIGGER users_changed ON users;
CREATE CONSTRAINT TRIGGER users_changed AFTER INSERT OR DELETE OR UPDATE OF id, username, disabled, scopes, entitlements, limits, version, networks, expires_at ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();

-- +goose Down
DROP TRIGGER users_changed ON users;
CREATE CONSTRAINT TRIGGER users_changed AFTER INSERT OR DELETE OR UPDATE OF id, username, disabled, scopes, entitlements, limits, version ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();
ALTER TABLE groups DROP COLUMN networks;
ALTER TABLE users DROP COLUMN expires_at;
ALTER TABLE users DROP COLUMN networks;
