package config

import "github.com/ruedahq/rueda/internal/identity/database"

// databaseConfig is the table [database]: a PostgreSQL database instead of the file in the data
// folder.
type databaseConfig struct {
	URLFile    string    `toml:"url_file"`
	URLEnv     string    `toml:"url_env"`
	URLCommand *[]string `toml:"url_command"`
	URL        string    `toml:"url" env:"-"` // refused
}

// database returns the URL of the database; "": the file.
func (c *mainFile) database(doc *document) string {
	d := &c.Database
	from := secretSource{d.URLFile, d.URLEnv, d.URLCommand}
	switch {
	case d.URL != "":
		doc.wrong("database.url", "must not be in this file, because it contains a password: set url_file to a file of mode 0600, url_env to an environment variable, or url_command to a program")
		return ""
	case !from.exists():
		return ""
	case d.URLEnv != "" && !environmentName.MatchString(d.URLEnv):
		doc.wrong("database.url_env", "is not the name of an environment variable") // the value may be the URL itself, which is a secret
		return ""
	}
	url := doc.secret("database", "url", from)
	settings := database.Config{Postgres: url}
	if err := settings.Check(); err != nil {
		doc.wrong("database", "%v", err)
	}
	doc.verified("database", url)
	if url != "" && !c.Keys.encryptionKey().exists() {
		doc.wrong("database", "also stores the keys, which must be encrypted: set encryption_key_file, encryption_key_env or encryption_key_command in [keys]; rueda keys init-encryption FILE makes one")
	}
	return url
}
