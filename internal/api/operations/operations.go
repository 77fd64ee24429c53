// Package operations has the operations page: the web page for operators of a gateway. It is served
// by the listener for administrators only, and uses the routes of that listener with the operator's
// own token. The token stays in the tab of the browser.
//
// The page is ES modules without a build step. Libraries and the colours are those of package
// console, below vendor/ and style/base.css of the same folder.
package operations

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files returns the files of the page, without the shared ones. Its root has index.html.
func Files() (fs.FS, error) { return fs.Sub(static, "static") }
