package command

import "testing"

// TestBuildString checks the line that rueda version prints.
func TestBuildString(t *testing.T) {
	const commit = "099e7fac3b4d0a4c1d2e3f4051627384950a1b2c"
	for _, c := range []struct {
		build Build
		want  string
	}{
		{Build{Commit: commit}, "rueda 0.2.0-dev (099e7fac3b4d) go1.26.8 linux/amd64"},
		{Build{Commit: commit, Modified: true}, "rueda 0.2.0-dev (099e7fac3b4d, modified) go1.26.8 linux/amd64"},
		{Build{Commit: "099e"}, "rueda 0.2.0-dev (099e) go1.26.8 linux/amd64"},
		{Build{}, "rueda 0.2.0-dev go1.26.8 linux/amd64"},
	} {
		c.build.Version, c.build.Go, c.build.Platform = "0.2.0-dev", "go1.26.8", "linux/amd64"
		if got := c.build.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
