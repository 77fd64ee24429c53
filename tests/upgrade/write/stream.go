package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// stream writes the journal of an installation by a producer that resumes. It sends a trade when
// the client has received the one before, so that each row is a commit and each full block ends
// with one: the next block then begins without a row.
type stream struct {
	*installation
	token    string
	sent     []json.RawMessage
	streamed []fixture.Message
	followed *follower
	producer net.Conn
	answers  *bufio.Scanner
	number   int            // of the last trade
	changes  map[string]int // the newest SQ of a channel and instrument
}

// write streams trades, restarts, streams more until the day has ended and been closed, and again
// after it. Then it restarts once more.
func (s *stream) write(ctx context.Context, out string) error {
	s.changes = map[string]int{}
	midnight := s.now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, run := range []struct{ before, after int }{{900, 0}, {250, 500}, {0, 100}} {
		if err := s.begin(ctx); err != nil {
			return err
		}
		if err := s.trades(run.before); err != nil {
			return err
		}
		if run.after > 0 && s.now().Before(midnight) {
			time.Sleep(midnight.Sub(s.now()) + time.Second)
		} else if run.before > 0 && s.now().After(midnight) {
			return errors.New("midnight came too early: this machine is too slow for secondsBefore")
		}
		if err := s.trades(run.after); err != nil {
			return err
		}
		if run.after > 0 {
			if err := s.closed(midnight.Add(-time.Hour).Format(time.DateOnly)); err != nil {
				return err
			}
		}
		if err := errors.Join(s.acknowledged(), s.end()); err != nil {
			return err
		}
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	fmt.Printf("%d messages streamed\n", len(s.streamed))
	return errors.Join(fixture.WriteLines(filepath.Join(out, "sent.jsonl.gz"), s.sent),
		fixture.WriteLines(filepath.Join(out, "streamed.jsonl.gz"), s.streamed))
}

// end stops the client, before the gateway ends its stream, the producer and the gateway.
func (s *stream) end() error {
	return errors.Join(s.followed.stop(), s.producer.Close(), s.stop())
}

// begin starts the gateway, the client and the producer.
func (s *stream) begin(ctx context.Context) (err error) {
	if err := s.start(ctx); err != nil {
		return err
	}
	m := &made{access: map[string]string{}, refresh: map[string]string{}}
	if err := s.login(ctx, m, "ana", ""); err != nil {
		return err
	}
	s.token = m.access["ana"]
	if s.producer, err = net.Dial("tcp", s.lines); err != nil {
		return err
	}
	s.answers = bufio.NewScanner(s.producer)
	hello := `{"type":"Hello","token":"` + strings.Repeat("feed", 8) + `","name":"p","resume":"r"}`
	if err := s.send(hello); err != nil {
		return err
	}
	if !s.answers.Scan() {
		return errors.Join(errors.New("the feed does not answer"), s.answers.Err())
	}
	for _, id := range fixture.Instruments() {
		def := fmt.Sprintf(`{"type":"F","I":%q,"currency":"ARS","price_decimals":2,"size_decimals":0}`, id)
		if err := s.send(def); err != nil {
			return err
		}
	}
	for listed := 0; listed < len(fixture.Instruments()); time.Sleep(50 * time.Millisecond) {
		x := fixture.Exchange{Method: http.MethodGet, Path: "/market/instruments", Token: s.token}
		text, err := s.do(ctx, &x)
		if err != nil {
			return err
		}
		listed = strings.Count(string(text), `"instrument"`)
	}
	s.followed, err = s.follow(ctx)
	return err
}

func (s *stream) send(line string) error {
	_, err := fmt.Fprintf(s.producer, "%s\n", line)
	return err
}

// trades sends trades, a book before every eighth one, and a correction after every sixtieth, and
// waits for each.
func (s *stream) trades(count int) error {
	condition := strings.Repeat(`,"condition-of-trade"`, 8)[1:] // fills blocks before their time ends
	for range count {
		s.number++
		n, name := s.number, fmt.Sprint("t", s.number)
		id := fixture.Instruments()[n*n%7%3]
		if n%8 == 0 {
			s.changes["O"+id]++
			if err := s.line(fmt.Sprintf(`{"type":"O","I":%q,"SQ":%d,"R":true,"B":[[%d.25,%d]],"A":[[%d.5,%d]]}`,
				id, s.changes["O"+id], 7000+n%50, n, 7100+n%50, n)); err != nil {
				return err
			}
		}
		s.changes["T"+id]++
		if err := s.line(fmt.Sprintf(`{"type":"T","I":%q,"SQ":%d,"P":%d,"Z":%d,"X":%q,"C":[%s]}`, id, s.changes["T"+id], 7000+n%100, n, name, condition)); err != nil {
			return err
		}
		if err := s.receive(`"X":"` + name + `"`); err != nil {
			return err
		}
		if n%60 != 0 {
			continue
		}
		s.changes["T"+id]++
		if err := s.line(fmt.Sprintf(`{"type":"C","I":%q,"SQ":%d,"P":6999,"Z":1,"XP":%d,"XZ":%d,"X":%q}`, id, s.changes["T"+id], 7000+n%100, n, name)); err != nil {
			return err
		}
		if err := s.receive(`"type":"C"`); err != nil {
			return err
		}
	}
	return nil
}

// receive waits until the client has a message that contains a text.
func (s *stream) receive(text string) error {
	more, err := s.followed.until(text)
	s.streamed = append(s.streamed, more...)
	return err
}

// line sends a line and keeps it.
func (s *stream) line(text string) error {
	s.sent = append(s.sent, json.RawMessage(text))
	return s.send(text)
}

// acknowledged waits until the gateway has stored the last trade.
func (s *stream) acknowledged() error {
	time.Sleep(time.Second) // messages of the stream that follow the last trade
	s.streamed = append(s.streamed, s.followed.rest()...)
	if err := s.producer.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	newest := map[string]int{}
	for s.answers.Scan() {
		var ack struct {
			Type string
			Last map[string]map[string]int
		}
		if err := json.Unmarshal(s.answers.Bytes(), &ack); err != nil || ack.Type != "Ack" {
			return fmt.Errorf("the feed answered %s", s.answers.Text())
		}
		missing := 0
		for _, id := range fixture.Instruments() {
			newest[id] = max(newest[id], ack.Last[id]["T"])
			missing += s.changes["T"+id] - newest[id]
		}
		if missing == 0 {
			return nil
		}
	}
	return errors.Join(errors.New("lines were not acknowledged"), s.answers.Err())
}

// closed waits until a day is closed.
func (s *stream) closed(day string) error {
	for range 300 {
		if _, err := os.Stat(filepath.Join(s.folder, "data/journal", day, "day.idx")); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the day %s is not closed", day)
}

// follower receives the stream.
type follower struct {
	cancel   context.CancelFunc
	messages chan fixture.Message
	ended    sync.WaitGroup
	err      error // that ended the stream, once messages is closed
}

// follow opens the stream of all instruments.
func (s *stream) follow(ctx context.Context) (*follower, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.listen+fixture.StreamPath(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	f := &follower{cancel: cancel, messages: make(chan fixture.Message, 10_000)}
	f.ended.Go(func() {
		defer close(f.messages)
		f.err = errors.Join(fixture.Stream(res.Body, func(m fixture.Message) bool {
			select {
			case f.messages <- m:
				return true
			case <-ctx.Done():
				return false
			}
		}), res.Body.Close())
	})
	_, err = f.until(`"Subscription"`)
	return f, err
}

// until returns the messages up to the first one that contains a text.
func (f *follower) until(text string) (list []fixture.Message, err error) {
	late := time.After(20 * time.Second)
	for {
		select {
		case m, ok := <-f.messages:
			if !ok {
				return nil, errors.Join(fmt.Errorf("the stream ended before a message with %s", text), f.err)
			}
			list = append(list, m)
			if strings.Contains(string(m.Data), text) {
				return list, nil
			}
		case <-late:
			return nil, fmt.Errorf("no message with %s came", text)
		}
	}
}

// rest returns the messages that have been received since.
func (f *follower) rest() (list []fixture.Message) {
	for len(f.messages) > 0 {
		list = append(list, <-f.messages)
	}
	return list
}

// stop ends the stream. It returns an error if the stream had ended before.
func (f *follower) stop() error {
	f.cancel()
	f.ended.Wait()
	if errors.Is(f.err, context.Canceled) {
		return nil
	}
	return f.err
}
