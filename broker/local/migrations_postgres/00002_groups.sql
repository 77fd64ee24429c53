-- +goose Up
-- A user has the rights of its row and of the groups it is in.
CREATE TABLE groups (
	name         TEXT COLLATE "C" PRIMARY KEY,
	scopes       TEXT NOT NULL,
	entitlements TEXT NOT NULL,
	limits       TEXT NOT NULL,
	created_at   BIGINT NOT NULL
);

CREATE TABLE user_groups (
	user_id    TEXT COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	group_name TEXT COLLATE "C" NOT NULL REFERENCES groups (name) ON DELETE CASCADE,
	PRIMARY KEY (user_id, group_name)
);

CREATE INDEX user_groups_by_group ON user_groups (group_name);

CREATE CONSTRAINT TRIGGER groups_changed AFTER INSERT OR UPDATE OR DELETE ON groups
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();
CREATE CONSTRAINT TRIGGER user_groups_changed AFTER INSERT OR UPDATE OR DELETE ON user_groups
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();

-- +goose Down
DROP TABLE user_groups;
DROP TABLE groups;
