package config

import (
	"os"

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

// secretSource is where a secret comes from: one of a file, an environment variable and a command.
type secretSource struct {
	file, env string
	command   *[]string // program and arguments; nil: none
}

// exists reports whether there is a source.
func (s secretSource) exists() bool { return s != (secretSource{}) }

// secret reads a secret that the configuration names: the text of a file with restricted
// permissions or the output of a command, without the line end, or an environment variable.
func (d *document) secret(key, name string, from secretSource) string {
	file, env := from.file, from.env
	switch {
	case !from.exists():
		d.wrong(key, "%s_file, %s_env or %s_command is missing: a file of mode 0600, an environment variable, or a program with arguments", name, name, name)
		return ""
	case file != "" && env != "" || from.command != nil && (file != "" || env != ""):
		d.wrong(key, "set only one of %s_file, %s_env and %s_command", name, name, name)
		return ""
	case from.command != nil:
		key += "." + name + "_command"
		if argv := *from.command; len(argv) == 0 || argv[0] == "" {
			d.wrong(key, "must be a program and its arguments, such as [\"pass\", \"show\", \"rueda\"]")
			return ""
		}
		text, err := d.run(*from.command, secretTime)
		if err != nil {
			d.wrong(key, "%v", err)
		}
		return text
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
	secret := string(trimLineEnd(text))
	if secret == "" {
		d.wrong(key, "%s is empty", file)
	}
	return secret
}
