-- +goose Up
-- A user in a group with required_factor can log in only with a second factor. Enabling or disabling one changes what a
-- user may do, so it is counted in users_changes. The use of a one-time password is not.
ALTER TABLE groups ADD COLUMN required_factor BOOLEAN NOT NULL DEFAULT FALSE;
CREATE CONSTRAINT TRIGGER second_factors_changed AFTER INSERT OR DELETE ON second_factors
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rueda_users_changed();

-- +goose Down
DROP TRIGGER second_factors_changed ON second_factors;
ALTER TABLE groups DROP COLUMN required_factor;
