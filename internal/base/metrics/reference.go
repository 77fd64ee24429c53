package metrics

import (
	"cmp"
	"fmt"
	"strings"
)

const introduction = `# Metrics

<!-- Made from internal/base/metrics by go test ./internal/base/metrics -run TestReference -update -->

With ` + "`[admin]`" + ` in its configuration, a gateway answers ` + "`GET /metrics`" + ` on the listener for
administrators, in the text format of Prometheus. The request needs the token of an operator. One
that may only read is enough. Give Prometheus a token of its own: a line in ` + "`token_file`" + ` with a
name, the SHA-256 of the token, and ` + "`read`" + `.

` + "```sh" + `
(umask 077; openssl rand -base64 32 > /etc/prometheus/rueda.token)
chown prometheus /etc/prometheus/rueda.token
echo "prometheus $(tr -d '\n' < /etc/prometheus/rueda.token | sha256sum | cut -d' ' -f1) read" \
    >> /etc/rueda/admin.token
` + "```" + `

` + "```yaml" + `
scrape_configs:
  - job_name: rueda
    authorization:
      credentials_file: /etc/prometheus/rueda.token
    static_configs:
      - targets: ["127.0.0.1:8081"]
` + "```" + `

The package and ` + "`rueda serve --init`" + ` write a file with a single token without a name. Replace that
token by a line for yourself first ([operators](operations.md#operators)): together with other lines
it is refused. For an address that other machines can reach, the scrape also needs
` + "`scheme: https`" + ` and a ` + "`tls_config`" + ` with a client certificate.

A scrape costs the stream nothing while nobody scrapes. Shards count in plain fields, and send them
to the scrape between two inputs. A shard that does not answer in 50 ms is reported as stale.
Counters begin at 0 when the process starts. No label has a value that a client chooses.

[The dashboard and the alerts](operations.md#monitoring) use these metrics.
`

const runtimeReference = `
## Go and the process

The page also has the metrics ` + "`go_*`" + ` of the Go runtime and ` + "`process_*`" + ` of the process, as the
Prometheus library documents them. Important ones are:

- ` + "`process_open_fds`" + ` and ` + "`process_max_fds`" + `, the file descriptors
- ` + "`process_resident_memory_bytes`" + `, the memory
- ` + "`process_start_time_seconds`" + `, the last start
`

// Reference returns docs/metrics.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(introduction)
	group := ""
	for _, f := range families() {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | meaning | what to do |\n|---|---|---|---|---|\n", group)
		}
		labels := "none"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, labels, f.help, cmp.Or(f.action, "nothing"))
	}
	b.WriteString(runtimeReference)
	return b.String()
}

// Names returns the names of the gateway's own metrics.
func Names() []string {
	var list []string
	for _, f := range families() {
		list = append(list, f.name)
	}
	return list
}
