// Package sqlusers is a user base that is a database of the broker's own, read by SELECTs that the broker writes. Nothing is
// ever written there.
//
// Each query has one bound parameter, :username, :id or :user_id in SQLite and $1 in PostgreSQL, and is known by the names
// of its columns, in any order:
//
//	login     by username   id, username, password_hash, version; disabled, scopes, entitlements, limits, groups
//	user      by id         the same; password_hash may be left out
//	accounts  by user id    account_id, number, type, status, currency;
//	                        name, currencies, roles, permissions, is_default, created_at
//
// Those behind the semicolon may be left out. A column of another name is refused, since it would be one that is misspelt. Check
// asks the database about the queries and says which is wrong, and why.
//
// # Columns
//
// id is text or a number and stays the user's for life. username is what was typed, but for the case of the letters A to Z: who is
// found under another spelling does not get in, or each spelling could be guessed at apart. password_hash is what package broker/password checks: PHC strings of
// argon2id, scrypt and PBKDF2, bcrypt, and those of some frameworks. disabled is a boolean, or 0 and 1. scopes, groups,
// currencies, roles and permissions are words with spaces between, or a JSON array of texts. entitlements and limits are
// JSON, in the words of broker.Entitlement and broker.Limits. What groups give is configured.
//
// version is a whole number or a time, and must rise whenever the password changes: tokens of before are over then. The
// time of the last change is one, as is a counter that a trigger counts. A hash of the row is none, since it does not rise. With
// 0 AS version, a change of the password does not end the logins of before; that the user is disabled or gone always does.
//
// # Concurrency
//
// Users is safe for concurrent use. A Guard given to it stands before the queries alone: logins that wait for their
// password to be checked say nothing about the database.
package sqlusers
