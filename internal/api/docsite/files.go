package docsite

import (
	"io/fs"
	"path"
	"strings"

	"github.com/ruedahq/rueda/clients/python"
	"github.com/ruedahq/rueda/clients/typescript"
	"github.com/ruedahq/rueda/docs"
)

// folder holds the documents of one folder of the repository.
type folder struct {
	prefix string // of the names of its documents
	files  fs.FS
}

// folders returns the folders of all documents. The name of a document is its path below docs, or
// its path in the tree if it is one of a client.
func folders() []folder {
	return []folder{{"clients/python/", python.Package()}, {"clients/typescript/", typescript.Package()}, {"", docs.Files()}}
}

// inTree returns the path in the tree of a document or picture.
func inTree(name string) string {
	if strings.HasPrefix(name, "clients/") {
		return name
	}
	return "docs/" + name
}

// nameOf returns the name of a file of the tree. ok is false if it is no document or picture.
func nameOf(file string) (name string, ok bool) {
	if strings.HasPrefix(file, "clients/") {
		return file, path.Ext(file) == ".md"
	}
	return strings.CutPrefix(file, "docs/")
}

// folderOf returns the folder that has a name, and the path below it.
func (s *Site) folderOf(name string) (fs.FS, string) {
	for _, f := range s.folders {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok {
			return f.files, rest
		}
	}
	return nil, "" // the last folder has all other names
}

// read returns a picture, or a document with its generated parts.
func (s *Site) read(name string) ([]byte, error) {
	files, rest := s.folderOf(name)
	if !fs.ValidPath(rest) {
		return nil, errNoPage
	}
	text, err := fs.ReadFile(files, rest)
	if err != nil {
		return nil, errNoPage
	}
	if path.Ext(name) == ".md" {
		text = withGeneratedParts(text)
	}
	return text, nil
}

// titles returns the first heading of each document.
func (s *Site) titles() map[string]string {
	all := map[string]string{}
	for _, f := range s.folders {
		_ = fs.WalkDir(f.files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".md" {
				return err
			}
			source, err := fs.ReadFile(f.files, name)
			if _, rest, ok := strings.Cut("\n"+string(source), "\n# "); ok {
				line, _, _ := strings.Cut(rest, "\n")
				all[f.prefix+name] = strings.ReplaceAll(line, "`", "")
			}
			return err
		})
	}
	return all
}
