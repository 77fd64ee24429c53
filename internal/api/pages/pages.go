// Package pages assembles the web pages of a gateway. The listener for clients serves the console,
// the documentation and the packages of the clients. The listener for administrators serves the
// operations page. The pages for users contain no file of the operations page.
package pages

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/ruedahq/rueda/clients/typescript"
	"github.com/ruedahq/rueda/internal/api/console"
	"github.com/ruedahq/rueda/internal/api/docsite"
	"github.com/ruedahq/rueda/internal/api/downloads"
	"github.com/ruedahq/rueda/internal/api/operations"
	session "github.com/ruedahq/rueda/internal/api/rest/console"
	"github.com/ruedahq/rueda/internal/api/webassets"
)

// Console configures the console.
type Console struct {
	Serve              bool
	Username, Password string        // a login that it suggests; "": none
	Idle               time.Duration // how long its tokens live, and how long it stays signed in unused; 0: 12 h
}

const defaultIdle = 12 * time.Hour

// Site contains the pages for users.
type Site struct {
	Handlers map[string]http.Handler // by path, for rest.Config.Pages
	Console  *session.Page           // for rest.Config.Console; nil: there is no console
}

// About describes the gateway to its pages.
type About struct {
	Version   string
	Packages  bool   // the gateway hands out the packages of the clients
	Dev       bool   // clients may request faults
	Contact   string // for reports of vulnerabilities, a URI; "": there is no security.txt
	PublicURL string // "": unknown
	// Origin returns the origin of the gateway as the client of a request reaches it. nil or ""
	// means that the origin is unknown.
	Origin func(r *http.Request) string
}

// ForUsers returns the pages for users. The error names a file of the console that cannot be
// served.
func ForUsers(c Console, about About) (Site, error) {
	options, packages := docsite.Options{Version: about.Version, Console: c.Serve, Origin: about.Origin}, downloads.NewServer()
	if about.Packages {
		options.Clients = packages.Files
	}
	docs := docsite.New(options)
	s := Site{Handlers: map[string]http.Handler{"/docs": docs, "/docs/": docs}}
	if about.Contact != "" {
		s.Handlers[securityPath] = securityText(about.Contact, about.PublicURL)
	}
	if c.Serve {
		if err := s.addConsole(c, about.Dev); err != nil {
			return Site{}, err
		}
	}
	if about.Packages {
		s.Handlers["/client"] = docs
		s.Handlers["/client/"] = clients(docs, http.StripPrefix("/client", packages), s.Handlers["/client/"])
	}
	return s, nil
}

// addConsole adds the console, and the modules that it imports below /client/. If dev is true, the
// console offers faults on request.
func (s *Site) addConsole(c Console, dev bool) error {
	s.Console = &session.Page{Dev: dev, Idle: cmp.Or(c.Idle, defaultIdle)}
	if c.Username != "" {
		s.Console.Hint = &session.Hint{Username: c.Username, Password: c.Password}
	}
	page, err := webassets.New(console.Files(), webassets.Options{})
	client, failed := webassets.New(typescript.Files(), webassets.Options{})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	s.Handlers["/"], s.Handlers["/console"] = page, http.StripPrefix("/console", page)
	s.Handlers["/console/"], s.Handlers["/client/"] = http.StripPrefix("/console", page), http.StripPrefix("/client", client)
	return nil
}

// clients returns a handler for the paths below /client/. docs serves the page about the packages,
// modules the files for browsers that end in .js, and packages all other files. modules may be nil.
func clients(docs, packages, modules http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := r.URL.Path[len("/client/"):]; {
		case name == "" || name == "es":
			docs.ServeHTTP(w, r)
		case modules != nil && path.Ext(name) == ".js":
			modules.ServeHTTP(w, r)
		default:
			packages.ServeHTTP(w, r)
		}
	})
}

// ForOperators returns the handlers of the operations page by path, for rest.AdminConfig.Pages. Of
// the console they serve only the libraries and colours.
func ForOperators() (map[string]http.Handler, error) {
	own, err := operations.Files()
	if err != nil {
		return nil, err
	}
	page, err := webassets.New(own, webassets.Options{})
	if err != nil {
		return nil, err
	}
	files := http.NewServeMux()
	files.Handle("/operations/", http.StripPrefix("/operations", page))
	for _, folder := range []string{"vendor", "style"} {
		part, err := fs.Sub(console.Files(), folder)
		if err != nil {
			return nil, err
		}
		shared, err := webassets.New(part, webassets.Options{})
		if err != nil {
			return nil, err
		}
		at := "/operations/common/" + folder
		files.Handle(at+"/", http.StripPrefix(at, shared))
	}
	index := http.RedirectHandler("/operations/", http.StatusFound)
	return map[string]http.Handler{"/": index, "/operations": index, "/operations/": files}, nil
}
