-- +goose Up
-- A hash that is renewed changes nobody's rights: it is neither counted nor told.
DROP TRIGGER users_changed ON users;
CREATE CONSTRAINT TRIGGER users_changed AFTER INSERT OR DELETE OR UPDATE OF id, username, disabled, scopes, entitlements, limits, version ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();

-- +goose Down
DROP TRIGGER users_changed ON users;
CREATE CONSTRAINT TRIGGER users_changed AFTER INSERT OR UPDATE OR DELETE ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();
