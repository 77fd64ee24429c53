package config

import (
	"os"
	"strings"

	"github.com/ruedahq/rueda/internal/fileowner"
)

// maxSecret is the maximum length of a password or connection string.
const maxSecret = 16 << 10

// mounted reports whether a file is one that a supervisor has mounted for this process: it belongs
// to root, this process does not, and besides root only the group may read it.
func mounted(info os.FileInfo) bool {
	owner, ok := fileowner.Of(info)
	return ok && owner == 0 && os.Geteuid() != 0 && info.Mode().Perm()&0o077 == 0o040
}

// secret reads a secret that the configuration names: the text of a file with restricted
// permissions, without the line end, or an environment variable.
func (d *document) secret(key, name, file, env string) string {
	switch {
	case file == "" && env == "":
		d.wrong(key, "%s_file or %s_env is missing: a file of mode 0600, or an environment variable", name, name)
		return ""
	case file != "" && env != "":
		d.wrong(key, "set either %s_file or %s_env", name, name)
		return ""
	case env != "":
		text := os.Getenv(env)
		if text == "" {
			d.wrong(key+"."+name+"_env", "environment variable %s is not set", env)
		}
		return text
	}
	key += "." + name + "_file"
	file = d.relative(file)
	info, err := os.Stat(file)
	switch {
	case err != nil:
		d.wrong(key, "%v", err)
		return ""
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		d.wrong(key, "%s is not a file of at most %d bytes", file, maxSecret)
		return ""
	case info.Mode().Perm()&0o007 != 0:
		d.wrong(key, "%s can be read by everybody: chmod 600 %s", file, file)
		return ""
	case info.Mode().Perm()&0o070 != 0 && !mounted(info):
		d.wrong(key, "%s can be read by its group: chmod 600 %s", file, file)
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		d.wrong(key, "%v", err)
		return ""
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		d.wrong(key, "%s is empty", file)
	}
	return secret
}
