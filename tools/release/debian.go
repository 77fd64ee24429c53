package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// Folders of the Debian package.
const (
	configFolder = "/etc/rueda"
	stateFolder  = "/var/lib/rueda"
	docFolder    = "/usr/share/doc/rueda"
)

// debianVersion returns the version of the Debian package. Its ~dev sorts before the release, and
// dpkg would read -dev as a revision, which sorts after it.
func (r *release) debianVersion() string { return strings.Replace(r.version, "-dev", "~dev", 1) }

// debian returns the Debian package of an archive's files, and its name. Configuration, unit and
// scripts are those of the checkout.
func (r *release) debian(arch string, all []file) (data []byte, name string, err error) {
	staging, err := os.MkdirTemp("", "release-debian-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	contents, err := r.debianFiles(all)
	if err != nil {
		return nil, "", err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "rueda", Arch: arch, Platform: "linux", Version: r.debianVersion(), VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: "The Rueda authors <maintainers@rueda.invalid>",
		Homepage: "https://github.com/ruedahq/rueda", License: "Apache-2.0", MTime: r.time,
		Description: "brokerage API gateway: tokens, accounts and a real-time market data stream\n" +
			"Rueda gives the clients of a broker token authentication, access to their\n" +
			"accounts, and market data over WebSocket and REST.",
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Depends:  []string{"adduser", "init-system-helpers"},
			Suggests: []string{"postgresql"},
			Deb:      nfpm.Deb{Compression: "gzip"},
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.tree, "deploy/debian/postinst"),
				PreRemove:   filepath.Join(r.tree, "deploy/debian/prerm"),
				PostRemove:  filepath.Join(r.tree, "deploy/debian/postrm"),
			},
		},
	})
	for i, f := range contents {
		source := filepath.Join(staging, fmt.Sprint(i))
		if err := os.WriteFile(source, f.data, 0o600); err != nil {
			return nil, "", err
		}
		kind := files.TypeFile
		if strings.HasPrefix(f.name, configFolder+"/") {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: source, Destination: f.name, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time},
		})
	}
	var out bytes.Buffer
	if err := deb.Default.Package(info, &out); err != nil {
		return nil, "", err
	}
	return out.Bytes(), "rueda_" + r.debianVersion() + "_" + arch + ".deb", nil
}

// debianFiles returns the files of the package with their places.
func (r *release) debianFiles(all []file) ([]file, error) {
	var contents []file
	add := func(name string, mode fs.FileMode, data []byte) {
		contents = append(contents, file{name: name, mode: mode, data: data})
	}
	var licenses []byte
	for _, f := range all {
		base := filepath.Base(f.name)
		switch {
		case f.name == "rueda":
			add("/usr/bin/rueda", 0o755, f.data)
		case f.name == "LICENSE":
			licenses = append(f.data, licenses...)
		case f.name == licensesFile:
			licenses = append(licenses, f.data...)
		case f.name == "CHANGELOG.md":
			add(docFolder+"/changelog.gz", 0o644, compress(f.data))
		case f.name == "README.md", strings.HasPrefix(f.name, docsFolder), strings.HasPrefix(f.name, deployFolder):
			add(docFolder+"/"+f.name, 0o644, f.data)
		case strings.HasPrefix(f.name, manFolder):
			add("/usr/share/man/man1/"+base+".gz", 0o644, compress(f.data))
		case base == "rueda.bash":
			add("/usr/share/bash-completion/completions/rueda", 0o644, f.data)
		case base == "_rueda":
			add("/usr/share/zsh/vendor-completions/_rueda", 0o644, f.data)
		case base == "rueda.fish":
			add("/usr/share/fish/vendor_completions.d/rueda.fish", 0o644, f.data)
		}
	}
	add(docFolder+"/copyright", 0o644, licenses)
	unit, err := os.ReadFile(filepath.Join(r.tree, "deploy/systemd/rueda.service"))
	if err != nil {
		return nil, err
	}
	add("/lib/systemd/system/rueda.service", 0o644, unit)
	for _, name := range []string{"rueda.toml", "markets.toml", "instruments.toml"} {
		text, err := os.ReadFile(filepath.Join(r.tree, "internal/ops/config/templates", name))
		if err != nil {
			return nil, err
		}
		if name == "rueda.toml" {
			example, data := "\ndata = \"data\"\n", "\ndata = \""+stateFolder+"\"\n"
			if bytes.Count(text, []byte(example)) != 1 {
				return nil, fmt.Errorf("the example rueda.toml does not have data = \"data\" once")
			}
			text = bytes.Replace(text, []byte(example), []byte(data), 1)
		}
		add(configFolder+"/"+name, 0o644, text)
	}
	return contents, nil
}

// compress returns data in gzip form, without a name or time.
func compress(data []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = w.Write(data) // a buffer does not fail
	_ = w.Close()
	return out.Bytes()
}
