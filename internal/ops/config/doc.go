// Package config reads the configuration of rueda serve: rueda.toml, the environment variables of
// settings, the files of markets and instruments, and the secrets.
//
//	s, err := config.Read("rueda/rueda.toml", newLogger)
//	if err != nil { … }               // every mistake, each with file, line and key
//	defer s.Users.Close()
//	s.Gateway.Data, err = s.OpenData(ctx)
//	err = s.Users.Use(ctx, &s.Gateway, data.Users)
//	g, err := gateway.New(s.Gateway)
//
// [Read] reads files and does not connect. [Settings] is the configuration for package gateway,
// with feeds and the user source created and not started. A command that needs only the database
// calls [Settings.OpenData] and closes the user source. [Write] writes an example, whose files
// explain every key.
//
// # Files
//
//	config.go              the keys of rueda.toml, and what of them has no file of its own
//	front.go               proxies, public_url, [admin]
//	database.go keys.go passwords.go throttle.go audit.go
//	users.go source.go     [users] and [accounts]: the keys, and what is made of them
//	feed.go                [[feed]]
//	catalogue.go           markets.toml and instruments.toml
//	environment.go         settings by environment variables, which override rueda.toml
//	secret.go              secrets, which are in files or in the environment
//	templates/             the example
//	strict.go              TOML into structs; mistakes
//	locate.go depth.go     the line of each key; texts that nest too deep
//	values.go              values with a form of their own: "30s", "64KiB", "10:30"
//
// # A new key
//
// A new key needs a field with a toml tag, a line with a comment in templates/rueda.toml, a check
// unless all values of its type are valid, and its use in the gateway settings. A test checks that
// the template has every key, and that its values after "#" are valid.
//
// # Strictness
//
// Decoding refuses unknown keys, with the nearest known one, and values of another type. It
// continues after a mistake, so that all are reported at once, in the order of the file. Paths are
// relative to the file that contains them. Secrets are never in the configuration; a file with a
// secret must not be readable by everybody. No message repeats a possible secret.
package config
