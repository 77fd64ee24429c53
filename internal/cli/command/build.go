package command

import (
	"runtime"
	"runtime/debug"
)

// release is the version of this tree. A tag of the same name marks the commit of a release.
const release = "0.1.0"

// Build describes a binary.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // revision it was built from
	Modified bool   `json:"modified,omitempty"` // the tree had changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild returns the version and the build of this binary.
func ReadBuild() Build {
	b := Build{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
