// Package docs has the Markdown documents of this folder and their pictures, which a gateway serves
// as pages: package internal/docsite.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md *.svg decisions/*.md es/*.md performance/*.svg
var files embed.FS

// Files returns the documents and pictures, by their path below this folder.
func Files() fs.FS { return files }
