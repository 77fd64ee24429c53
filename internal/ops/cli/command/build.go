package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of this tree: at the commit with the tag v0.2.0 it is 0.2.0, and at all
// others that of the next release with -dev. TestVersions checks the files that repeat it.
const release = "0.2.0-dev"

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

// String returns the version and the build in one line, such as
// rueda 0.2.0-dev (099e7fac3b4d, modified) go1.26.8 linux/amd64. If the binary does not know its
// commit, there are no parentheses.
func (b Build) String() string {
	commit := b.Commit[:min(len(b.Commit), 12)]
	if b.Modified {
		commit += ", modified"
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	return fmt.Sprintf("rueda %s%s %s %s", b.Version, commit, b.Go, b.Platform)
}
