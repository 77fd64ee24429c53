// Package login has the commands context and auth: saved gateways, and logins at them.
package login
