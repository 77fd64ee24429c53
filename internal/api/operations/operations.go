// Package operations contains the operations page, the web page for operators of a gateway. Only
// the listener for administrators serves it. The page uses the routes of that listener with the
// operator's own token, which stays in the tab of the browser.
//
// The page consists of ES modules without a build step. Its libraries and colours are those of
// package console, below vendor/ and in style/base.css of the same folder.
package operations

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files returns the files of the page with index.html at the root. It does not include the files of
// package console that the page uses.
func Files() (fs.FS, error) { return fs.Sub(static, "static") }
