-- +goose Up
-- A user in a group with required_factor can log in only with a second factor. Enabling or disabling one changes what a
-- user may do, so it is counted in users_changes. The use of a one-time password is not.
ALTER TABLE groups ADD COLUMN required_factor INTEGER NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE TRIGGER second_factors_added AFTER INSERT ON second_factors BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER second_factors_removed AFTER DELETE ON second_factors BEGIN
	UPDATE users_changes SET n = n + 1 WHERE one = 1;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER second_factors_added;
DROP TRIGGER second_factors_removed;
ALTER TABLE groups DROP COLUMN required_factor;
