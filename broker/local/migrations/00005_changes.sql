-- +goose Up
-- users_changes counts what changed rights, so that what another process writes elsewhere in the file is told from that. A
-- hash that is renewed changes nobody's.
CREATE TABLE users_changes (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	n   INTEGER NOT NULL
) STRICT;
INSERT INTO users_changes (one, n) VALUES (1, 0);

-- +goose StatementBegin
CREATE TRIGGER users_added AFTER INSERT ON users BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER users_altered AFTER UPDATE OF id, username, disabled, scopes, entitlements, limits, version ON users BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER users_removed AFTER DELETE ON users BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER groups_added AFTER INSERT ON groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER groups_altered AFTER UPDATE ON groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER groups_removed AFTER DELETE ON groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER user_groups_added AFTER INSERT ON user_groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER user_groups_altered AFTER UPDATE ON user_groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER user_groups_removed AFTER DELETE ON user_groups BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER users_added;
DROP TRIGGER users_altered;
DROP TRIGGER users_removed;
DROP TRIGGER groups_added;
DROP TRIGGER groups_altered;
DROP TRIGGER groups_removed;
DROP TRIGGER user_groups_added;
DROP TRIGGER user_groups_altered;
DROP TRIGGER user_groups_removed;
DROP TABLE users_changes;
