package podexec

import (
	"context"
	"crypto/rand"
	"sync"
)

// maxShells bounds how many containers something is remembered of.
const maxShells = 4096

// shells remembers which containers have a shell.
type shells struct {
	mu    sync.Mutex
	known map[Target]bool
}

func (s *shells) recall(t Target) (has, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, known = s.known[t]
	return has, known
}

func (s *shells) remember(t Target, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxShells { // most pods are gone by then
		s.known = map[Target]bool{}
	}
	s.known[t] = has
}

func (s *shells) forget(t Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, t)
}

// hasShell says whether a container has what the watchdog needs. It is asked once, and
// again after whatever went wrong.
func (r *Runner) hasShell(ctx context.Context, t Target) (bool, error) {
	if has, known := r.shells.recall(t); known {
		return has, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s := r.open(ctx, t, askForShell, rand.Text())
	o := r.await(ctx, s)
	result, _, _ := s.close()
	has, err := isShell(o, result)
	if err == nil {
		r.shells.remember(t, has)
	}
	return has, err
}

// isShell interprets what asking for a shell came to. Some nodes answer for a missing
// program with an exit code, others with an error. An error of another cause befalls
// the command too, if it lasts; else that runs without a watchdog, once.
func isShell(o outcome, r Result) (bool, error) {
	switch {
	case o.ending == exited && o.code == 0 && r.Output == "":
		return false, ErrLost // a stream that broke behind the API server looks like this
	case o.ending == exited:
		return o.code == 0, nil
	case o.ending == told:
		return false, nil
	case o.ending == leaked:
		return false, ErrLeaked
	case o.ending == broken:
		return false, lost(o)
	}
	return false, o.err
}
