package docsite

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/ruedahq/rueda/internal/api/downloads"
)

// clientsName is the name of the page that explains how to install the clients. Its path is
// /client/, where the packages are, and not below /docs.
const clientsName = "/client/"

// clientsView is the data for the template of the page about the clients.
type clientsView struct {
	PyPI, Debian, NPM, Go template.HTML // commands
	Update                template.HTML // of the Python package
	Files                 []downloads.File
}

// clients renders the page that explains how to install the clients. Its commands contain origin,
// the origin of the gateway, or exampleOrigin if origin is empty.
func (s *Site) clients(at place, origin string) ([]byte, error) {
	if s.options.Clients == nil {
		return nil, errNoPage
	}
	files, err := s.options.Clients()
	if err != nil {
		return nil, err
	}
	v := clientsView{Files: files}
	address := func(f downloads.File) string { return exampleOrigin + clientsName + f.Name }
	code := func(text string) template.HTML { // a script may still replace exampleOrigin
		text = string(code(text))
		if origin != "" {
			text = strings.ReplaceAll(text, exampleOrigin, template.HTMLEscapeString(origin))
		}
		return template.HTML(text) //nolint:gosec // code has escaped it
	}
	for _, f := range files {
		switch f.For {
		case downloads.Pip:
			v.PyPI = code("python3 -m venv bot\nbot/bin/pip install " + address(f) + "\n")
			v.Update = code("bot/bin/pip install --force-reinstall --no-deps " + address(f) + "\n")
			v.Debian = code("sudo apt-get install python3-websockets python3-venv\n" +
				"/usr/bin/python3 -m venv --system-site-packages bot\n" +
				"bot/bin/pip install --no-deps " + address(f) + "\n")
		case downloads.NPM:
			v.NPM = code("npm install " + address(f) + "\n")
		}
	}
	v.Go = code("git clone https://github.com/ruedahq/rueda ../rueda\n" +
		"go mod edit -require github.com/ruedahq/rueda@v0.0.0 -replace github.com/ruedahq/rueda=../rueda\n" +
		"go mod tidy\n")
	f := s.frame(at, "")
	f.Title = f.T("Install a client")
	return s.finish(f, "clients", v)
}

// Size returns the size of a file as text, such as "12 KB", rounded up.
func (clientsView) Size(f downloads.File) string { return fmt.Sprintf("%d KB", (len(f.Data)+999)/1000) }
