// Package config reads the configuration of rueda serve: rueda.toml, the files of markets and
// instruments that it names, and the secrets.
//
//	s, err := config.Read("rueda/rueda.toml", newLogger)
//	if err != nil { … }               // every mistake, each with file, line and key
//	defer s.Users.Close()
//	s.Gateway.Data, err = s.OpenData(ctx)
//	err = s.Users.Use(ctx, &s.Gateway, data.Users)
//	g, err := gateway.New(s.Gateway)
//
// [Read] reads files and connects to nothing. What it gives, [Settings], is the configuration as
// package gateway takes it, with the feeds and the source of users made and not started. A command that
// works on the database alone needs [Settings.OpenData], and closes the source of users unused.
// [Write] writes an example, whose files name every key and explain it.
//
// # Where things are
//
//	config.go              the keys of rueda.toml, and what of them has no file of its own
//	front.go               proxies, public_url, [admin]
//	database.go keys.go passwords.go throttle.go audit.go
//	users.go source.go     [users] and [accounts]: the keys, and what is made of them
//	feed.go                [[feed]]
//	catalogue.go           markets.toml and instruments.toml
//	secret.go              secrets, which are in files or in the environment
//	templates/             the example
//	strict.go              TOML into structs; mistakes
//	locate.go depth.go     the line of each key; texts that nest too deep
//	values.go              values with a form of their own: "30s", "64KiB", "10:30"
//
// # A new key
//
// It is a field of a struct with a toml tag, a line with a comment in templates/rueda.toml, a check
// where not every value of its type is right, and what the gateway makes of it. A test wants each key in
// the template, and what the template has behind "#" to be right.
//
// # Strictness
//
// Decoding refuses a key that no field has and says which is nearest, and a value of another type. It goes on
// behind a mistake, so that all are told at once, in the order of the file. Paths are relative to
// the file that names them. A secret never stands in the file; a file with one must not be readable by
// everybody. No message repeats what a secret could be.
package config
