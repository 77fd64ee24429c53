// Package ops documents its folders, which are the program rueda: commands,
// configuration, backups and tests of client programs.
//
//	Which commands are there?                  cli/root.go
//	What does rueda dev start?                 cli/server/dev.go
//	Which settings does rueda.toml have?       config/config.go
//	What can a reload change?                  config/changes.go
//	What does a backup contain?                backup/manifest.go
//	What does rueda conformance client check?  conformance/cases.go
package ops
