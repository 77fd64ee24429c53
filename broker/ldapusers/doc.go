// Package ldapusers is a user base in an LDAP directory: OpenLDAP, 389 Directory Server, Active
// Directory.
//
// A login is a search and a bind: a service account searches for the one entry of the username, and
// a bind as that entry checks the password. Later reads use the permanent id of the entry,
// entryUUID or objectGUID. Rights are configured, for all users and by group.
//
// Passwords use TLS (ldaps or StartTLS). Plain LDAP is for loopback addresses and must be enabled.
// User input in filters is escaped. An empty password is refused without a request, because
// directories accept it as an anonymous bind. An entry counts only if its name equals the input
// except for the case of A to Z. Directories also fold spaces and similar characters, and each
// spelling would have its own count of failed logins.
//
// # Versions
//
// Earlier tokens end when the attribute Version of the entry rises: pwdChangedTime of password
// policies, pwdLastSet of Active Directory, or modifyTimestamp, which rises with any change of the
// entry. Its resolution is a second or less, by the directory's clock. If an entry has no such
// attribute, or with "none", a change of the password does not end earlier logins; disabling or
// deleting a user always does.
//
// # Concurrency
//
// Users is safe for concurrent use. It keeps a few connections of the service account and a few for
// binds, replaces those that the directory has closed, and closes a connection whose context ends.
// Wrap it with package guard.
package ldapusers
