// Package console contains the files of the web console. The console is a page for users of a
// gateway, which shows the market, the state of the connection, and the messages themselves.
//
// Browsers receive the files unchanged: HTML, CSS and ES modules, without a build step. The program
// is in the folder app. Its modules for market data, session and measurements do not depend on the
// views in app/views. The folder vendor contains libraries, which differ from those on npm only in
// the names of their imports. vendored.json lists their versions and hashes.
//
// The page uses only what every client of the gateway can use, through the TypeScript client of
// this repository, which it imports from ../client. No file contains inline scripts or styles, so
// that a strict content security policy is possible.
package console

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files returns the files of the console, with index.html at the root. The page expects them at
// /console/, and the files of the TypeScript client at /client/.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}
