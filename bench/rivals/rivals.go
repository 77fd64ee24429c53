package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// rival is a server of another project.
type rival struct {
	name     string
	protocol string                              // of the load program
	start    func(folder string) (*relay, error) // folder: for its files
	version  func() string
	needs    []string // programs and files that it needs besides this program
	install  string   // how to install them
}

// rivals returns all rivals, in the order of the tables.
func rivals() []rival {
	return []rival{
		{name: "gorilla", protocol: "plain", start: startGorilla, version: module("github.com/gorilla/websocket")},
		{name: "gws-broadcaster", protocol: "plain", start: startGwsBroadcaster, version: module("github.com/lxzan/gws")},
		{name: "gws-raw", protocol: "plain", start: startGwsRaw, version: module("github.com/lxzan/gws")},
		{name: "nats", protocol: "nats", start: startNats, version: module("github.com/nats-io/nats-server/v2")},
		{name: "nchan", protocol: "nchan", start: startNchan, version: debian("libnginx-mod-nchan"),
			needs: []string{"nginx", nchanModule}, install: "apt-get install nginx libnginx-mod-nchan"},
		{name: "mosquitto", protocol: "mqtt", start: startMosquitto, version: debian("mosquitto"),
			needs: []string{"mosquitto"}, install: "apt-get install mosquitto"},
	}
}

func rivalNamed(name string) (*rival, error) {
	for _, r := range rivals() {
		if r.name == name {
			return &r, nil
		}
	}
	return nil, fmt.Errorf("no rival is called %q", name)
}

// absent returns what a rival needs and is missing; "": it can be measured.
func (r *rival) absent() string {
	for _, name := range r.needs {
		if _, err := findProgram(name); err != nil {
			return name
		}
	}
	return ""
}

// findProgram finds a server program, also in folders for administrators, or a file by its path.
func findProgram(name string) (string, error) {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return name, err
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

// module returns a function that returns the version of a module of this program.
func module(path string) func() string {
	return func() string {
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, d := range info.Deps {
				if d.Path == path {
					return d.Version
				}
			}
		}
		return ""
	}
}

// debian returns a function that returns the version of an installed package; "": not installed as
// a package.
func debian(name string) func() string {
	return func() string {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
}
