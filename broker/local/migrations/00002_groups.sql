-- +goose Up
-- A user has the rights of its row and of the groups it is in.
CREATE TABLE groups (
	name         TEXT PRIMARY KEY,
	scopes       TEXT NOT NULL,
	entitlements TEXT NOT NULL,
	limits       TEXT NOT NULL,
	created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE user_groups (
	user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	group_name TEXT NOT NULL REFERENCES groups (name) ON DELETE CASCADE,
	PRIMARY KEY (user_id, group_name)
) STRICT, WITHOUT ROWID;

CREATE INDEX user_groups_by_group ON user_groups (group_name);

-- +goose Down
DROP TABLE user_groups;
DROP TABLE groups;
