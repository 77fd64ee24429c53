// Package ldapusers is a user base that is an LDAP directory: OpenLDAP, 389 Directory Server, Active Directory.
//
// A login is search, then bind: a service account looks for the one entry of the username, and a bind as that entry
// with the password says whether it is right. A user is read again by the id that the entry keeps for life, entryUUID
// or objectGUID. Rights come by configuration, for all and by group.
//
// Passwords go over TLS (ldaps, or StartTLS); plain LDAP is for loopback addresses and has to be asked for. What is typed
// is escaped in filters, an empty password is refused before anything is asked (directories take
// it for an anonymous bind that succeeds), and an entry counts only if it has the name as it was typed, but for the case
// of A to Z: directories fold spaces and look-alikes too, and each way of writing a name would have its own count of
// failed logins.
//
// # Versions
//
// The tokens of before a change of the password are over when the attribute Version of the entry has risen:
// pwdChangedTime of password policies, pwdLastSet of Active Directory, or modifyTimestamp, which rises with any change of
// the entry. They count in seconds or less, of the directory's clock. Where an entry has none of it, or with "none", a change
// of the password does not end the logins of before; that the user is disabled or gone always does.
//
// # Concurrency
//
// Users is safe for concurrent use. It keeps a few connections, as the service account and for binds apart, makes new
// ones for those that the directory closed, and ends one whose context ends. Package guard goes before it.
package ldapusers
