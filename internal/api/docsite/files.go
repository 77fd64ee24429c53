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

// folders returns the folders that contain documents. A document of a client is named by its path
// in the repository, and any other document by its path below docs.
func folders() []folder {
	return []folder{{"clients/python/", python.Package()}, {"clients/typescript/", typescript.Package()}, {"", docs.Files()}}
}

// inTree returns the path in the repository of the document or picture with a name.
func inTree(name string) string {
	if strings.HasPrefix(name, "clients/") {
		return name
	}
	return "docs/" + name
}

// nameOf returns the name of the file at a path in the repository. ok is false if the file is not a
// document or picture that /docs serves.
func nameOf(file string) (name string, ok bool) {
	if strings.HasPrefix(file, "clients/") {
		return file, path.Ext(file) == ".md"
	}
	return strings.CutPrefix(file, "docs/")
}

// folderOf returns the folder that contains the document with a name, and the path of the document
// in that folder.
func (s *Site) folderOf(name string) (fs.FS, string) {
	for _, f := range s.folders {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok {
			return f.files, rest
		}
	}
	return nil, "" // the last folder has all other names
}

// read returns the content of a picture or a document. Generated parts of a document are filled in.
// The error is errNoPage if there is no such file.
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

// titles returns the first heading of each document, by the name of its file.
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
