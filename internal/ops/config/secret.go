package config

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ruedahq/rueda/internal/base/fileowner"
)

// maxSecret is the maximum length of a password or connection string.
const maxSecret = 16 << 10

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
	case errors.Is(err, fs.ErrNotExist) && name == "token":
		d.wrong(key, "%v: create it with (umask 077; openssl rand -hex 32 >%s), and give the secret to the producers", err, file)
		return ""
	case errors.Is(err, fs.ErrNotExist):
		d.wrong(key, "%v: write the secret into it, and run chmod 600 %s", err, file)
		return ""
	case err != nil:
		d.wrong(key, "%v", fileowner.Unreadable(err))
		return ""
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		d.wrong(key, "%s is not a file of at most %d bytes", file, maxSecret)
		return ""
	case info.Mode().Perm()&0o007 != 0:
		d.wrong(key, "%s can be read by everybody: chmod 600 %s", file, file)
		return ""
	case info.Mode().Perm()&0o070 != 0 && !fileowner.Mounted(info, os.Geteuid()):
		d.wrong(key, "%s can be read by its group: chmod 600 %s", file, file)
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		d.wrong(key, "%v", fileowner.Unreadable(err))
		return ""
	}
	secret := string(trimLineEnd(text))
	if secret == "" {
		d.wrong(key, "%s is empty", file)
	}
	return secret
}
