// Package neighbour has clients for tests that share an address. Neighbours have no login and do
// one thing without end. Others have a right to be served. [Site.Measure] counts how often the
// others are refused while a neighbour is at work.
//
// neighbour.go has the neighbours, others.go the others, measure.go the count.
//
// # Concurrency
//
// A Site belongs to one test. Measure runs its clients on goroutines, which end before it returns.
package neighbour
