// Package typescript has the TypeScript client: the compiled modules for pages, and the files of
// its package for npm. Folder dist is made by npm run build. A test in tests/browser makes it again
// and compares.
package typescript

import (
	"embed"
	"io/fs"
)

//go:embed dist/*.js
var dist embed.FS

//go:embed dist/*.js dist/*.d.ts package.json README.md REFERENCE.md LICENSE
var files embed.FS

// Files returns the modules of the client, with index.js at the root.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}

// Package returns the files of the client by their path in its folder: package.json, the guide, the
// reference, the license, and in dist the modules with their types.
func Package() fs.FS { return files }
