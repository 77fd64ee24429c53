// Package docs has the Markdown documents of this folder, their pictures and the test vectors. A
// gateway serves them as pages: package internal/api/docsite.
package docs

import (
	"embed"
	"io/fs"
)

// The pattern with brackets is *.svg and *.webp. A pattern without a file would be an error.
//
//go:embed *.md *.[sw][ve][gb]* test-vectors.json decisions/*.md es/*.md
var files embed.FS

// Files returns the documents, pictures and test vectors, by their path below this folder.
func Files() fs.FS { return files }
