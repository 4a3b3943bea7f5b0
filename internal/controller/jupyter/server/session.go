package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

// maxBody bounds an answer. A kernel takes 200 bytes.
const maxBody = 1 << 20

// untracked asks the server not to take the question itself for use: without it, a
// server that is asked what its kernels do is never idle.
const untracked = "?no_track_activity=1"

// session is the questions to one server.
type session struct {
	target Target
	clock  clock.PassiveClock
	http   *http.Client
}

// answer is an answer of the API that checks itself.
type answer interface {
	json.Unmarshaler
}

// get asks for a path and reads the answer.
func (s *session) get(ctx context.Context, path string, into answer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.target.Address+path+untracked, http.NoBody)
	if err != nil {
		return &askError{path: path, what: "the pod's address cannot be used"}
	}
	req.Header.Set("Authorization", "token "+s.target.Token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "bongsu")
	resp, err := s.http.Do(req)
	if err != nil {
		return connectionError(path, err)
	}
	defer resp.Body.Close()
	return s.read(path, resp, into)
}

func (s *session) read(path string, resp *http.Response, into answer) error {
	if err := s.check(path, resp); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return connectionError(path, err)
	}
	if len(body) > maxBody {
		return &askError{path: path, what: "the answer is longer than 1 MiB"}
	}
	if json.Unmarshal(body, into) != nil { // its error may quote the answer
		return &askError{path: path, what: "the answer is not one of Jupyter's API"}
	}
	return nil
}

// check judges all but the body.
func (s *session) check(path string, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return statusError(path, resp.StatusCode)
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return &askError{path: path, what: "the answer is not JSON; is this a Jupyter server?"}
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err == nil && date.Sub(s.clock.Now()).Abs() > maxSkew {
		return errClock
	}
	return nil
}

// terminals asks for the terminals. A server that has them switched off does not
// know the path.
func (s *session) terminals(ctx context.Context) (terminalsAnswer, error) {
	var terminals terminalsAnswer
	err := s.get(ctx, "/api/terminals", &terminals)
	if e, ok := errors.AsType[*askError](err); ok && e.status == http.StatusNotFound {
		return nil, nil
	}
	return terminals, err
}

// maxSkew is how much the server's clock may differ from ours: what it says of its
// last use is compared with ours.
const maxSkew = time.Minute
