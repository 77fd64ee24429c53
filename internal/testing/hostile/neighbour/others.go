package neighbour

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// tokens is the answer to a grant.
type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

// reply is the answer to a request.
type reply struct {
	status int
	Data   tokens `json:"data"`
	Error  struct {
		Reason string `json:"reason"`
	} `json:"error"`
}

// refused returns how a request was refused, or "".
func (r *reply) refused(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no port is left" // on this side
	case err != nil:
		return "no answer"
	case r.status != http.StatusOK:
		return fmt.Sprint(r.status, " ", r.Error.Reason)
	}
	return ""
}

// exchange sends a request on a connection of its own.
func exchange(dial func() (net.Conn, error), head string) (*reply, error) {
	nc, err := dial()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(nc, head); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{status: res.StatusCode}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_ = json.Unmarshal(text, r) // else it has neither tokens nor a reason
	return r, nil
}

// sessionsOf requests the logins of a user with a token.
func sessionsOf(dial func() (net.Conn, error), token string) string {
	r, err := exchange(dial, "GET /auth/sessions HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	return r.refused(err)
}

// login logs a user in.
func login(dial func() (net.Conn, error), u User) (tokens, string) {
	body, err := json.Marshal(map[string]string{"grant_type": "password", "username": u.Name, "password": u.Password})
	if err != nil {
		return tokens{}, err.Error()
	}
	return grant(dial, string(body))
}

// refresh refreshes a login.
func refresh(dial func() (net.Conn, error), token string) (tokens, string) {
	return grant(dial, `{"grant_type":"refresh_token","refresh_token":"`+token+`"}`)
}

func grant(dial func() (net.Conn, error), body string) (tokens, string) {
	r, err := exchange(dial, post("/auth/token", body))
	if refused := r.refused(err); refused != "" {
		return tokens{}, refused
	}
	return r.Data, ""
}

// connect opens a socket. It sends the token with the handshake, or as a page does: in a message
// after a pause. It returns how that was refused, or "".
func connect(dial func() (net.Conn, error), token string, page bool, pause time.Duration) string {
	nc, err := dial()
	if err != nil {
		return (*reply)(nil).refused(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	head := upgrade
	if !page {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := io.WriteString(nc, head+"\r\n"); err != nil {
		return "no answer"
	}
	in := bufio.NewReader(nc)
	res, err := http.ReadResponse(in, nil)
	switch {
	case err != nil:
		return "no answer"
	case res.StatusCode != http.StatusSwitchingProtocols:
		_ = res.Body.Close()
		return fmt.Sprint(res.StatusCode)
	}
	if page {
		<-time.After(pause)
		const textFrame = 0x81
		if _, err := nc.Write(frame.AppendMasked(nil, textFrame, 0, []byte(`{"action":"auth_token","token":"`+token+`"}`))); err != nil {
			return "closed"
		}
	}
	return success(in)
}

// success reads messages up to that of the login. It returns "" for Success.
func success(in *bufio.Reader) string {
	for {
		first, payload, err := readFrame(in)
		if err != nil {
			return "closed"
		}
		const closeFrame = 0x88
		if first == closeFrame && len(payload) >= 2 {
			return fmt.Sprint("closed ", binary.BigEndian.Uint16(payload))
		}
		var m struct {
			Type, Reason string
			Code         int
		}
		switch err := json.Unmarshal(payload, &m); {
		case err != nil: // a ping
		case m.Type == "Success":
			return ""
		case m.Type == "Error":
			return fmt.Sprint(m.Code, " ", m.Reason)
		}
	}
}

// readFrame reads a frame of a server.
func readFrame(in *bufio.Reader) (first byte, payload []byte, err error) {
	var head [10]byte
	if _, err := io.ReadFull(in, head[:2]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	switch size {
	case 126:
		_, err = io.ReadFull(in, head[2:4])
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		_, err = io.ReadFull(in, head[2:10])
		size = binary.BigEndian.Uint64(head[2:])
	}
	if err != nil || size > 1<<20 {
		return 0, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	return head[0], payload, err
}
