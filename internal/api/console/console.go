// Package console has the files of the web console: a page for the users of a gateway, which shows
// the market, the state of the connection, and the messages themselves.
//
// The files are what the browser receives: HTML, CSS and ES modules, without a build step. Folder
// app has the program. Its modules of market data, session and measurements do not know the views
// in app/views. Folder vendor has the libraries, byte for byte as npm has them, except for the
// names in their imports. vendored.json has their versions and hashes.
//
// The page uses only what every client of the gateway can use, through the TypeScript client of
// this repository, which it imports from ../client. No file has inline scripts or styles, so that a
// strict content security policy holds.
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
