// Package testing documents its folders, which are what the tests of several packages
// share. No other code imports them.
//
//	How does a test get a hub, and restart it?        streamtest/house.go
//	How does a test follow what a client receives?    streamtest/client.go
//	How are the conversations of the protocol run?    talk/run.go
//	How does a test get a private PostgreSQL?         pgtest/pgtest.go
//	How does a test get a private LDAP directory?     ldaptest/ldaptest.go
//	Which tests does make test run?                   testrun/tier.go
package testing
