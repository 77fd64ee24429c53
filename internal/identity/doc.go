// Package identity documents its folders, which know users, logins, tokens and keys,
// and what is recorded about them. No request for market data waits for them.
//
//	How does a login become tokens?                   auth/grants.go
//	How does a refresh token rotate?                  auth/rotation.go
//	How is an access token verified?                  auth/verify.go
//	Which claims does an access token have?           auth/access.go
//	What limits logins?                               auth/throttle/throttle.go
//	How are signing keys made, stored and replaced?   auth/keyset/lifecycle.go
//	What is stored in which table?                    store/migrations
//	How is the audit log verified?                    auditlog/verify.go
//	Which market data did a user receive in a month?  usage/report.go
package identity
