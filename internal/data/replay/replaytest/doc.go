// Package replaytest writes files of the formats that package replay plays, following their
// published specifications, for tests: small ones by hand, and long ones from a [Flow] of orders.
//
// The writers check nothing, so that tests can write invalid files.
package replaytest
