// Package server has the commands that run a gateway: serve, by a configuration file, and dev, with
// a simulated market on this machine.
//
// # Concurrency
//
// A command runs on the goroutine of its caller and returns when the gateway has ended.
package server
