package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill returns the bill of materials of a binary as CycloneDX 1.6 in JSON: Go and the modules that
// its build information lists, with the hashes of go.sum, and the libraries of its web pages.
func (r *release) bill(binary, goos, arch string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "rueda", Version: r.version,
		PackageURL: moduleURL(info.Main.Path, "v"+r.version, goos, arch),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	main.BOMRef = main.PackageURL
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	modules := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: goVersion, BOMRef: moduleURL("std", goVersion, "", ""),
		PackageURL: moduleURL("std", goVersion, "", ""), Scope: cdx.ScopeRequired,
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced", m.Path)
		}
		hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			return nil, fmt.Errorf("module %s: hash %q: %w", m.Path, m.Sum, err)
		}
		url := moduleURL(m.Path, m.Version, "", "")
		modules = append(modules, cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: url, PackageURL: url, Scope: cdx.ScopeRequired,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}},
		})
	}
	libraries, err := r.libraries()
	if err != nil {
		return nil, err
	}
	modules = append(modules, libraries...)
	var refs []string
	for _, m := range modules {
		refs = append(refs, m.BOMRef)
	}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &properties
	bom := cdx.NewBOM()
	bom.SerialNumber = serialNumber(sum)
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &modules
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// vendored is the folder of the console, whose list of libraries is vendored.json.
const vendored = "internal/api/console"

// libraries returns the packages of JavaScript and CSS that web pages in the program use, each with
// its files.
func (r *release) libraries() (list []cdx.Component, err error) {
	text, err := os.ReadFile(filepath.Join(r.tree, vendored, "vendored.json"))
	if err != nil {
		return nil, err
	}
	var files []struct{ File, Package, Version, License, SHA256 string }
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("list of libraries: %w", err)
	}
	for _, f := range files {
		url := "pkg:npm/" + strings.Replace(f.Package, "@", "%40", 1) + "@" + f.Version
		i := slices.IndexFunc(list, func(c cdx.Component) bool { return c.BOMRef == url })
		if i < 0 {
			i = len(list)
			list = append(list, cdx.Component{
				Type: cdx.ComponentTypeLibrary, Name: f.Package, Version: f.Version, BOMRef: url, PackageURL: url, Scope: cdx.ScopeRequired,
				Licenses: &cdx.Licenses{{License: &cdx.License{ID: f.License}}}, Components: &[]cdx.Component{},
			})
		}
		*list[i].Components = append(*list[i].Components, cdx.Component{
			Type: cdx.ComponentTypeFile, Name: f.File, BOMRef: url + "#" + f.File,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: f.SHA256}},
		})
	}
	return list, nil
}

// moduleURL returns the package URL of a module. A platform belongs to a binary.
func moduleURL(path, version, goos, arch string) string {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	if goos != "" {
		url += "?goos=" + goos + "&goarch=" + arch
	}
	return url
}

// serialNumber returns a UUID of version 8 that depends on the hash of a binary only.
func serialNumber(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
