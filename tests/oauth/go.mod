module github.com/ruedahq/rueda/tests/oauth

go 1.26.0

replace github.com/ruedahq/rueda => ../..

require (
	github.com/ruedahq/rueda v0.0.0-00010101000000-000000000000
	golang.org/x/oauth2 v0.37.0
)
