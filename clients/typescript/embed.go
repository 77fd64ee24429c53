// Package typescript has the compiled TypeScript client, for pages that the gateway serves. Folder
// dist is made by npm run build. A test in tests/browser makes it again and compares.
package typescript

import (
	"embed"
	"io/fs"
)

//go:embed dist/*.js
var dist embed.FS

// Files returns the modules of the client, with index.js at the root.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}
