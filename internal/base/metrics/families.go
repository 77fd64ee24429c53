package metrics

import (
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// kind is the type of a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	durations kind = "histogram"
)

// family describes a metric, and how its values are read from a snapshot.
type family struct {
	group  string // heading of docs/metrics.md
	name   string
	kind   kind
	labels []string
	help   string // what it means
	action string // what to do; "": nothing
	values func(s *Snapshot, now time.Time, e *emitter)
}

// emitter takes the values of a family.
type emitter struct {
	value func(v float64, labels ...string)
	times func(h *histogram.Histogram, labels ...string)
}

// families returns all metrics of the gateway. The Go runtime and the process have metrics of their
// own, see New.
func families() []family {
	var all []family
	for _, part := range [][]family{gatewayFamilies(), clientFamilies(), streamFamilies(), marketFamilies(), clusterFamilies(), identityFamilies(), hostFamilies()} {
		all = append(all, part...)
	}
	return all
}

// one returns the function of a metric without labels.
func one[T int | int64 | uint64 | float64](get func(s *Snapshot) T) func(*Snapshot, time.Time, *emitter) {
	return func(s *Snapshot, _ time.Time, e *emitter) { e.value(float64(get(s))) }
}

// all returns the function of a histogram without labels.
func all(get func(s *Snapshot) *histogram.Histogram) func(*Snapshot, time.Time, *emitter) {
	return func(s *Snapshot, _ time.Time, e *emitter) { e.times(get(s)) }
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns a time as Prometheus has it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func gatewayFamilies() []family {
	const group = "Gateway"
	return []family{
		{group, "rueda_build_info", gauge, []string{"version"}, "Always 1, with the version of the program.", "",
			func(s *Snapshot, _ time.Time, e *emitter) { e.value(1, s.Version) }},
		{group, "rueda_ready", gauge, nil, "1 while `GET /readyz` answers 200.", "`GET /readyz` says why it is not ready: no feed is up, or the gateway starts or stops.",
			one(func(s *Snapshot) float64 { return is(s.Ready) })},
		{group, "rueda_panics_total", counter, nil, "Recovered panics. Each has ended one connection or request.", "Report the stack in the log (`session panicked`, `request handler panicked`).",
			one(func(s *Snapshot) uint64 { return s.Panics })},
		{group, "rueda_shard_stale", gauge, []string{"shard"}, "1 if the shard did not answer the scrape within 50 ms. Its counters are then those of the scrape before.", "A shard that stays stale is blocked or has no processor: compare `rueda_hub_lock_longest_wait_seconds` and the load of the machine.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for i, stale := range s.Shards {
					e.value(is(stale), strconv.Itoa(i))
				}
			}},
		{group, "rueda_requests_total", counter, []string{"route", "status", "reason"}, "Answers to REST requests, by route (never the path), status, and reason of the error.", "Many `429`: a client ignores `Retry-After`. Any `500`: report the log line `request failed`.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, r := range s.Requests {
					e.value(float64(r.N), r.Route, strconv.Itoa(r.Status), r.Reason)
				}
			}},
		{group, "rueda_request_seconds", durations, nil, "Time of REST requests, without streams.", "Slow logins: see password slots. Slow history: lower `limits.history_readers`.",
			all(func(s *Snapshot) *histogram.Histogram { return &s.RequestTime })},
	}
}

func clientFamilies() []family {
	const group = "Connections"
	return []family{
		{group, "rueda_connections", gauge, []string{"state"}, "Open connections of the stream: `unauthenticated`, `live`, and of both those that are `blocked` by a full socket.", "",
			func(s *Snapshot, _ time.Time, e *emitter) {
				c := &s.Clients
				e.value(float64(c.Unauthenticated), "unauthenticated")
				e.value(float64(c.Open-c.Unauthenticated), "live")
				e.value(float64(c.Blocked), "blocked")
			}},
		{group, "rueda_connections_limit", gauge, nil, "Largest number of open connections (`limits.sockets`).", "Raise it together with the limit of file descriptors.",
			one(func(s *Snapshot) int { return s.Clients.Limit })},
		{group, "rueda_connections_opened_total", counter, nil, "Connections whose handshake was accepted.", "",
			one(func(s *Snapshot) uint64 { return s.Clients.Opened })},
		{group, "rueda_connections_closed_total", counter, []string{"reason"}, "Connections that have ended: by the close reasons of the protocol, `gone` (the client left) and `protocol_error`.", "`slow_client`: see [slow clients](operations.md#memory). `token_expired`: clients do not refresh in time.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for reason, n := range s.Clients.Closed {
					e.value(float64(n), reason)
				}
			}},
		{group, "rueda_handshakes_refused_total", counter, nil, "Handshakes above the limit of an address (`limits.handshakes`).", "An attack, or a proxy that is missing in `proxies`.",
			one(func(s *Snapshot) uint64 { return s.Clients.Refused })},
		{group, "rueda_slow_clients_total", counter, nil, "Times that a client began to read too slowly.", "One client: its network. Many: the network or processors of this machine.",
			one(func(s *Snapshot) uint64 { return s.Clients.Slow })},
		{group, "rueda_input_pauses_total", counter, nil, "Times that the gateway stopped reading a connection for up to a second, because its client sent more than 256 KiB or 200 frames a second.", "The log names one each minute: `client sends too much`. A client that floods is slowed down and costs the others nothing.",
			one(func(s *Snapshot) uint64 { return s.Clients.Pauses })},
		{group, "rueda_backlog_bytes", gauge, nil, "Bytes that wait for slow clients and that no other client needs (`stream.max_backlog`).", "The log names them: `client is slow`.",
			one(func(s *Snapshot) int64 { return s.Clients.Backlog })},
		{group, "rueda_backlog_connections", gauge, nil, "Clients for which such bytes wait.", "The log names them: `client is slow`.",
			one(func(s *Snapshot) int64 { return s.Clients.BacklogSessions })},
		{group, "rueda_pending_output_bytes", gauge, nil, "Bytes in the buffers of connections with full sockets.", "",
			one(func(s *Snapshot) int64 { return s.Clients.PendingBytes })},
	}
}

func streamFamilies() []family {
	const group = "Stream"
	return []family{
		{group, "rueda_messages_total", counter, nil, "Messages that shards have read from topics. Each shard with readers counts a message once.", "",
			one(func(s *Snapshot) uint64 { return s.Market.Messages })},
		{group, "rueda_deliveries_total", counter, nil, "Those messages, once for each subscription that reads the topic. Slow clients receive some of them conflated.", "",
			one(func(s *Snapshot) uint64 { return s.Market.Deliveries })},
		{group, "rueda_delivery_seconds", durations, nil, "Time from the publication of the oldest message of a flush until its writes, counted for each write of messages. It is an upper bound, and includes the commit to the journal.", "Above 50 ms: the processors or the disk are too slow. Compare `rueda_commit_seconds` and the load of the machine.",
			all(func(s *Snapshot) *histogram.Histogram { return &s.Delivery })},
		{group, "rueda_conflations_total", counter, nil, "Times that the waiting quotes, summaries or book of a slow client became the newest state.", "See `rueda_slow_clients_total`.",
			one(func(s *Snapshot) uint64 { return s.Market.Conflated })},
		{group, "rueda_resumes_total", counter, nil, "Identifiers that continued after the last message of a client.", "",
			one(func(s *Snapshot) uint64 { return s.Market.Resumes })},
		{group, "rueda_resumes_lost_total", counter, nil, "Identifiers that a client could not resume completely, because rows are not stored or the epoch is another one.", "After a new epoch this is normal. Otherwise raise `stream.trades_kept` or use a journal.",
			one(func(s *Snapshot) uint64 { return s.Market.Lost })},
		{group, "rueda_stream_memory_bytes", gauge, nil, "Memory that counts toward `stream.memory`: rings, recent rows, replays and pending output.", "See [memory](operations.md#memory).",
			one(func(s *Snapshot) int64 { return s.Market.Memory })},
		{group, "rueda_stream_memory_limit_bytes", gauge, nil, "The limit, `stream.memory`.", "",
			one(func(s *Snapshot) int64 { return s.Market.MemoryLimit })},
		{group, "rueda_stream_memory_relief", gauge, nil, "Step that the gateway takes against full memory: 0 none, 1 replays, 2 recent rows, 3 connections are closed.", "Raise `stream.memory`, or find the slow clients in the log (`client is slow`).",
			one(func(s *Snapshot) int { return s.Market.Relief })},
		{group, "rueda_writes_total", counter, nil, "Writes to sockets.", "",
			one(func(s *Snapshot) uint64 { return s.Clients.Writes })},
		{group, "rueda_sent_bytes_total", counter, nil, "Bytes of frames that the kernel has accepted, without TLS.", "",
			one(func(s *Snapshot) uint64 { return s.Clients.Bytes })},
	}
}

func identityFamilies() []family {
	const group = "Identity"
	return []family{
		{group, "rueda_token_checks_total", counter, []string{"result"}, "Access tokens of connections of the stream that were checked: `ok`, or the reason of the refusal.", "Many `invalid_token`: a client of another installation, or keys that were lost.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, c := range s.TokenChecks {
					e.value(float64(c.N), c.Labels[0])
				}
			}},
		{group, "rueda_grants_total", counter, []string{"grant", "result"}, "Logins (`password`) and refreshes (`refresh_token`): `ok`, or the reason of the refusal. `rate_limited` and `too_many_failures` are refusals of the throttle.", "Many `invalid_credentials` or throttle refusals: see [login rate limits](identity.md#login-rate-limits). `unavailable`: the database or the user base is down.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, c := range s.Grants {
					e.value(float64(c.N), c.Labels[0], c.Labels[1])
				}
			}},
		{group, "rueda_password_checks", gauge, []string{"state"}, "Password checks that are `running`, or `waiting` for a slot. Only for the built-in user base.", "Waiting for long: raise `auth.password_slots` if processors are free.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				if p := s.Passwords; p != nil {
					e.value(float64(p.Running), "running")
					e.value(float64(p.Waiting), "waiting")
				}
			}},
		{group, "rueda_password_checks_total", counter, []string{"result"}, "Password checks that were `computed`, or `refused` because the queue was full or too slow. Only for the built-in user base.", "Refused: a flood of logins, or too few `auth.password_slots`.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				if p := s.Passwords; p != nil {
					e.value(float64(p.Hashed), "computed")
					e.value(float64(p.Refused), "refused")
				}
			}},
		{group, "rueda_user_base_breaker_open", gauge, nil, "1 while the circuit breaker keeps calls from a user base on the network. Only for such a user base.", "Logins and refreshes answer 503. Repair the user base; the gateway retries by itself.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				if u := s.UserBase; u != nil {
					e.value(is(u.State != "closed"))
				}
			}},
		{group, "rueda_user_base_calls", gauge, nil, "Calls in flight to a user base on the network.", "",
			func(s *Snapshot, _ time.Time, e *emitter) {
				if u := s.UserBase; u != nil {
					e.value(float64(u.InFlight))
				}
			}},
		{group, "rueda_database_transaction_seconds", durations, nil, "Time of transactions of logins, refreshes and the audit log.", "Slow: the disk of SQLite, or the network to PostgreSQL.",
			all(func(s *Snapshot) *histogram.Histogram { return &s.DatabaseTime })},
		{group, "rueda_database_failures_total", counter, nil, "Failed transactions and, with PostgreSQL, failed polls, which are sent every 5 s.", "Logins and refreshes answer 503. The log has the cause (`login not stored`, `audit log not written`). If the log has no cause, PostgreSQL cannot be reached.",
			one(func(s *Snapshot) uint64 { return s.DatabaseFailed })},
		{group, "rueda_signing_key_age_seconds", gauge, nil, "Age of the key that signs access tokens.", "Older than `keys.rotate`: the log says why the keys cannot be saved. See [keys](keys.md).",
			func(s *Snapshot, now time.Time, e *emitter) {
				for _, k := range s.Keys {
					if k.State == "signing" {
						e.value(now.Sub(k.Since).Seconds())
					}
				}
			}},
		{group, "rueda_keys", gauge, []string{"state"}, "Keys of access tokens by state.", "See [keys](keys.md).",
			func(s *Snapshot, _ time.Time, e *emitter) {
				n := map[string]int{}
				for _, k := range s.Keys {
					n[k.State]++
				}
				for state, n := range n {
					e.value(float64(n), state)
				}
			}},
		{group, "rueda_certificate_expires_timestamp_seconds", gauge, []string{"listener"}, "End of the TLS certificate of the listener for `clients` or `admin`.", "Renew it; the gateway reads changed files again.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, c := range s.Certificates {
					e.value(seconds(c.Expires), c.Listener)
				}
			}},
	}
}

func hostFamilies() []family {
	const group = "Machine"
	return []family{
		{group, "rueda_disk_free_bytes", gauge, []string{"folder"}, "Free space for the gateway's user on the disk of the `data` or `journal` folder.", "Lower `journal.days` or `journal.bytes`, or enlarge the disk.",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, d := range s.Disks {
					e.value(float64(d.Free), d.Folder)
				}
			}},
		{group, "rueda_disk_size_bytes", gauge, []string{"folder"}, "Size of that disk.", "",
			func(s *Snapshot, _ time.Time, e *emitter) {
				for _, d := range s.Disks {
					e.value(float64(d.Size), d.Folder)
				}
			}},
	}
}
