// Package replaytest writes files of the formats that package replay plays, after their published
// specifications, for tests: small ones by hand, and long ones of a [Flow] of orders.
//
// The writers check nothing. What is to be a bad file is made bad by the test.
package replaytest
