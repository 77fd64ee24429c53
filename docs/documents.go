// Package docs has the Markdown documents of this folder and their pictures, which a gateway serves
// as pages: package internal/api/docsite.
package docs

import (
	"embed"
	"io/fs"
)

// The pattern with brackets is *.svg and *.webp. A pattern without a file would be an error.
//
//go:embed *.md *.[sw][ve][gb]* decisions/*.md es/*.md performance/*.svg
var files embed.FS

// Files returns the documents and pictures, by their path below this folder.
func Files() fs.FS { return files }
