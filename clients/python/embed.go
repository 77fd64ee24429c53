// Package python has the source of the Python client, of which a gateway makes a wheel.
package python

import (
	"embed"
	"io/fs"
)

//go:embed rueda/*.py rueda/py.typed pyproject.toml README.md REFERENCE.md LICENSE
var files embed.FS

// Package returns the files of the client by their path in its folder: pyproject.toml, the guide,
// the reference, the license, and the modules in rueda.
func Package() fs.FS { return files }
