package config

import "github.com/ruedahq/rueda/internal/database"

// databaseConfig is the table [database]: a database of PostgreSQL in place of the file in the data folder.
type databaseConfig struct {
	URLFile string `toml:"url_file"`
	URLEnv  string `toml:"url_env"`
	URL     string `toml:"url"` // refused
}

// database is the URL of the database, "" for the file.
func (c *mainFile) database(doc *document) string {
	d := &c.Database
	switch {
	case d.URL != "":
		doc.wrong("database.url", "is refused here, for it holds a password: write it into a file of mode 0600 and name that with url_file, or name an environment variable with url_env")
		return ""
	case d.URLFile == "" && d.URLEnv == "":
		return ""
	case d.URLEnv != "" && !environmentName.MatchString(d.URLEnv):
		doc.wrong("database.url_env", "is not the name of an environment variable") // it may be the URL itself
		return ""
	}
	url := doc.secret("database", "url", d.URLFile, d.URLEnv)
	settings := database.Config{Postgres: url}
	if err := settings.Check(); err != nil {
		doc.wrong("database", "%v", err)
	}
	if url != "" && c.Keys.EncryptionKeyFile == "" && c.Keys.EncryptionKeyEnv == "" {
		doc.wrong("database", "keeps the keys too, which must be encrypted there: set encryption_key_file or encryption_key_env in [keys]; rueda keys init-encryption FILE makes one")
	}
	return url
}
