// Package sqlusers is a user base in a database of the broker, which is read by the broker's own
// SELECTs. It is never written.
//
// Each query has one bound parameter, :username, :id or :user_id in SQLite and $1 in PostgreSQL.
// Its columns are identified by name, in any order:
//
//	login     by username   id, username, password_hash, version; disabled, scopes, entitlements, limits, groups
//	user      by id         the same; password_hash is optional
//	accounts  by user id    account_id, number, type, status, currency;
//	                        name, currencies, roles, permissions, is_default, created_at
//
// Columns after the semicolon are optional. Unknown columns are refused, because they may be
// misspelled. Check prepares the queries in the database and reports what is wrong with them.
//
// # Columns
//
// id is text or a number and permanent. username must equal the input except for the case of A to
// Z: users found under other spellings are refused, or each spelling would allow guesses.
// password_hash has a format of package broker/password: PHC strings of argon2id, scrypt and
// PBKDF2, bcrypt, and those of some frameworks. disabled is a boolean, or 0 and 1. scopes, groups,
// currencies, roles and permissions are words separated by spaces, or a JSON array of texts.
// entitlements and limits are JSON as broker.Entitlement and broker.Limits. The rights of groups
// are configured.
//
// version is a whole number or a time, and must increase whenever the password changes, which ends
// earlier tokens. The time of the last change works, and so does a counter of a trigger. A hash of
// the row does not, because it need not rise. With 0 AS version, a change of the password does not
// end earlier logins; disabling or deleting a user always does.
//
// # Concurrency
//
// Users is safe for concurrent use. Its Guard protects the queries only: logins that wait for their
// password to be checked do not affect it.
package sqlusers
