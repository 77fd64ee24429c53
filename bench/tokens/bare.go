package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // registers the driver
)

// rotator makes the transaction of a refresh.
type rotator interface {
	create(ctx context.Context, first [32]byte, family string) error
	rotate(ctx context.Context, presented, successor [32]byte) error
	close() error
}

// bare starts the bare program.
func (p *program) bare(c Config) (*Started, error) {
	ctx := context.Background()
	var db rotator
	if err := p.ownDatabase(ctx, &c); err != nil {
		return nil, err
	}
	var err error
	if c.Postgres != "" {
		db, err = openBarePostgres(ctx, c.Postgres)
	} else if err = os.MkdirAll(c.Folder, 0o700); err == nil {
		db, err = openBareSQLite(ctx, filepath.Join(c.Folder, "bare.db"))
	}
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: &bareTokens{db: db, key: key}, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	p.stop = append(p.stop, func() error {
		err := server.Close()
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return errors.Join(err, db.close())
	})
	return &Started{Address: l.Addr().String()}, nil
}

// bareTokens answers both grants.
type bareTokens struct {
	db  rotator
	key *ecdsa.PrivateKey
}

func (b *bareTokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Grant   string `json:"grant_type"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	successor := base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(successor))
	var err error
	if q.Grant == "password" {
		err = b.db.create(r.Context(), hash, successor[:16])
	} else {
		err = b.db.rotate(r.Context(), sha256.Sum256([]byte(q.Refresh)), hash)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	access, err := b.sign(successor[:16])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"success":true,"data":{"access_token":"` + access + `","token_type":"bearer","expires_in":86400,"refresh_token":"` + successor + `","refresh_expires_in":2592000,"scope":""}}`))
}

// sign returns a token of the gateway's size.
func (b *bareTokens) sign(subject string) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"iss": "rueda", "sub": subject, "aud": "rueda", "exp": time.Now().Unix() + 86400, "iat": time.Now().Unix(),
		"jti": subject, "client_id": "rueda", "sid": subject, "ver": 1,
	})
	if err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding
	body := b64.EncodeToString([]byte(`{"alg":"ES256","kid":"0123456789012345678901234567890123456789012","typ":"at+jwt"}`)) + "." + b64.EncodeToString(claims)
	sum := sha256.Sum256([]byte(body))
	x, y, err := ecdsa.Sign(rand.Reader, b.key, sum[:])
	if err != nil {
		return "", err
	}
	return body + "." + b64.EncodeToString(append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)), nil
}

// bareSchema is the schema for both databases; BLOB stands for their binary type.
func bareSchema(blob string) []string {
	return []string{
		`CREATE TABLE bare_families (id TEXT PRIMARY KEY, used_at BIGINT NOT NULL)`,
		`CREATE TABLE bare_tokens (hash ` + blob + ` PRIMARY KEY, parent ` + blob + `, family TEXT NOT NULL, expires_at BIGINT NOT NULL, dead_at BIGINT)`,
	}
}

// bareSQLite has one connection, because SQLite has one writer.
type bareSQLite struct {
	db *sql.DB

	mu                             sync.Mutex
	conn                           *sql.Conn
	find, add, kill, note, session *sql.Stmt
}

func openBareSQLite(ctx context.Context, path string) (*bareSQLite, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	s := &bareSQLite{db: db}
	if s.conn, err = db.Conn(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for _, q := range bareSchema("BLOB") {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	for to, q := range map[**sql.Stmt]string{
		&s.find:    `SELECT parent, family FROM bare_tokens WHERE hash = ? AND dead_at IS NULL`,
		&s.add:     `INSERT INTO bare_tokens (hash, parent, family, expires_at) VALUES (?, ?, ?, ?)`,
		&s.kill:    `UPDATE bare_tokens SET dead_at = ? WHERE hash = ?`,
		&s.note:    `UPDATE bare_families SET used_at = ? WHERE id = ?`,
		&s.session: `INSERT INTO bare_families (id, used_at) VALUES (?, ?)`,
	} {
		if *to, err = s.conn.PrepareContext(ctx, q); err != nil { //nolint:sqlclosecheck // closed with the connection
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// transact runs f in a transaction.
func (s *bareSQLite) transact(f func(context.Context) error) error {
	ctx := context.Background() // transactions are completed
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	end, err := "COMMIT", f(ctx)
	if err != nil {
		end = "ROLLBACK"
	}
	_, ended := s.conn.ExecContext(ctx, end)
	return errors.Join(err, ended)
}

func (s *bareSQLite) create(_ context.Context, first [32]byte, family string) error {
	return s.transact(func(ctx context.Context) error {
		now := time.Now().UnixNano()
		_, err1 := s.session.ExecContext(ctx, family, now)
		_, err2 := s.add.ExecContext(ctx, first[:], nil, family, now)
		return errors.Join(err1, err2)
	})
}

func (s *bareSQLite) rotate(_ context.Context, presented, successor [32]byte) error {
	return s.transact(func(ctx context.Context) error {
		var parent []byte
		var family string
		if err := s.find.QueryRowContext(ctx, presented[:]).Scan(&parent, &family); err != nil {
			return err
		}
		now := time.Now().UnixNano()
		_, err1 := s.add.ExecContext(ctx, successor[:], presented[:], family, now)
		_, err2 := s.kill.ExecContext(ctx, now, parent)
		_, err3 := s.note.ExecContext(ctx, now, family)
		return errors.Join(err1, err2, err3)
	})
}

func (s *bareSQLite) close() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.db.Close())
}

type barePostgres struct{ pool *pgxpool.Pool }

// barePool is the number of connections of the bare program; more are slower on a machine that also
// runs the database.
const barePool = 16

func openBarePostgres(ctx context.Context, url string) (*barePostgres, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database's URL is not understood") // the cause contains it
	}
	cfg.MaxConns = barePool
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, q := range append([]string{`DROP TABLE IF EXISTS bare_families, bare_tokens`}, bareSchema("BYTEA")...) {
		if _, err := pool.Exec(ctx, q); err != nil {
			pool.Close()
			return nil, err
		}
	}
	return &barePostgres{pool}, nil
}

func (p *barePostgres) create(ctx context.Context, first [32]byte, family string) error {
	now := time.Now().UnixNano()
	_, err1 := p.pool.Exec(ctx, `INSERT INTO bare_families (id, used_at) VALUES ($1, $2)`, family, now)
	_, err2 := p.pool.Exec(ctx, `INSERT INTO bare_tokens (hash, family, expires_at) VALUES ($1, $2, $3)`, first[:], family, now)
	return errors.Join(err1, err2)
}

func (p *barePostgres) rotate(ctx context.Context, presented, successor [32]byte) error {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	var parent []byte
	var family string
	now := time.Now().UnixNano()
	err = tx.QueryRow(ctx, `SELECT parent, family FROM bare_tokens WHERE hash = $1 AND dead_at IS NULL FOR UPDATE`, presented[:]).Scan(&parent, &family)
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO bare_tokens (hash, parent, family, expires_at) VALUES ($1, $2, $3, $4)`, successor[:], presented[:], family, now)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE bare_tokens SET dead_at = $1 WHERE hash = $2`, now, parent)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE bare_families SET used_at = $1 WHERE id = $2`, now, family)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func (p *barePostgres) close() error {
	p.pool.Close()
	return nil
}
