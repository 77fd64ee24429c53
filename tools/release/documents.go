package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ruedahq/rueda/internal/api/downloads"
	"github.com/ruedahq/rueda/internal/ops/cli"
)

// Folders of an archive.
const (
	manFolder        = "man/"
	completionFolder = "completions/"
	docsFolder       = "docs/"
	clientsFolder    = "clients/"
	deployFolder     = "deploy/"
	licensesFile     = "THIRD_PARTY_LICENSES.txt"
)

// commonFiles returns the files that the archives of all platforms have: texts of the checkout, files
// for deployment, the packages of the clients, man pages, completions, and the licenses of the
// modules that are linked.
func (r *release) commonFiles(ctx context.Context) ([]file, error) {
	var all []file
	names, err := r.tracked(ctx, docsFolder, deployFolder)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{"LICENSE", "README.md", "CHANGELOG.md"}, names...) {
		text, err := os.ReadFile(filepath.Join(r.tree, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, mode: 0o644, data: text})
	}
	packages, err := downloads.Files()
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		all = append(all, file{name: clientsFolder + p.Name, mode: 0o644, data: p.Data})
	}
	licenses, err := r.licenses(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, file{name: licensesFile, mode: 0o644, data: licenses})
	root := cli.Root()
	root.InitDefaultHelpCmd()
	pages, err := r.manPages(root)
	if err != nil {
		return nil, err
	}
	scripts, err := completions(root)
	return append(append(all, pages...), scripts...), err
}

// tracked returns the names of the files in folders of the checkout, without those that make the
// Debian package.
func (r *release) tracked(ctx context.Context, folders ...string) ([]string, error) {
	text, err := r.git(ctx, slices.Concat([]string{"ls-files", "--"}, folders)...)
	names := strings.Fields(text)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, deployFolder+"debian/") }), err
}

// manPages returns a page for each command, in section 1.
func (r *release) manPages(cmd *cobra.Command) ([]file, error) {
	var text bytes.Buffer
	cmd.DisableAutoGenTag = true
	date := r.time
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: "Rueda " + r.version, Manual: "Rueda"}
	if err := doc.GenMan(cmd, header, &text); err != nil {
		return nil, err
	}
	all := []file{{name: manFolder + name + ".1", mode: 0o644, data: text.Bytes()}}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		pages, err := r.manPages(sub)
		if err != nil {
			return nil, err
		}
		all = append(all, pages...)
	}
	return all, nil
}

// completions returns the scripts of the shells.
func completions(root *cobra.Command) ([]file, error) {
	var all []file
	var failed error
	add := func(name string, generate func(io.Writer) error) {
		var text bytes.Buffer
		failed = errors.Join(failed, generate(&text))
		all = append(all, file{name: completionFolder + name, mode: 0o644, data: text.Bytes()})
	}
	add("rueda.bash", func(w io.Writer) error { return root.GenBashCompletionV2(w, true) })
	add("_rueda", root.GenZshCompletion)
	add("rueda.fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) })
	add("rueda.ps1", root.GenPowerShellCompletionWithDesc)
	return all, failed
}

// licenses returns the licenses and notices of Go and of the modules that the program links on any
// platform of a release.
func (r *release) licenses(ctx context.Context) ([]byte, error) {
	modules := map[string]string{}
	var names []string
	for platform := range strings.SplitSeq(allPlatforms, ",") {
		goos, arch, _ := strings.Cut(platform, "/")
		cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/rueda")
		cmd.Dir = r.tree
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=-mod=readonly", "GOWORK=off")
		text, err := output(cmd)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			name, folder, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if _, known := modules[name]; ok && !known {
				modules[name] = folder
				names = append(names, name)
			}
		}
	}
	goRoot, err := goEnv(ctx, "GOROOT")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "The program contains the Go standard library and the modules below, under these licenses.\n")
	if err := appendLicenses(&out, "Go "+runtime.Version(), goRoot); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := appendLicenses(&out, name, modules[name]); err != nil {
			return nil, err
		}
	}
	if err := appendLicenses(&out, "Common passwords", filepath.Join(r.tree, "broker", "local", "common")); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// appendLicenses writes the licenses in the folder of a module. A module without one is an error.
func appendLicenses(out *bytes.Buffer, name, folder string) error {
	pattern := regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !pattern.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		found = true
		line := strings.Repeat("=", 80)
		fmt.Fprintf(out, "\n%s\n%s: %s\n%s\n\n%s\n", line, name, e.Name(), line, bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("module %s has no license in %s", name, folder)
	}
	return nil
}

func goEnv(ctx context.Context, name string) (string, error) {
	text, err := output(exec.CommandContext(ctx, "go", "env", "-json", name))
	if err != nil {
		return "", err
	}
	var env map[string]string
	err = json.Unmarshal([]byte(text), &env)
	return env[name], err
}
