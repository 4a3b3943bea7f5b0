package objects

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// whileDown answers every request with an error that asks to wait for some seconds.
func whileDown(seconds int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		reply(w, http.StatusTooManyRequests, &apierrors.NewTooManyRequests("down", seconds).ErrStatus)
		return true
	}
}

func TestAChangeIsCommittedAlsoIfTheAPIServerFailsAfterIt(t *testing.T) {
	inScene(t, func(s *scene) {
		s.value("web", 2)
		synctest.Wait() // it is read, and waits for others
		s.with(func() { s.answer = whileDown(0) })
		s.disconnect()
		s.wants("Update web 1 -> 2")
	})
}

func TestTheAPIServerCannotStopTheWatchForLong(t *testing.T) {
	inScene(t, func(s *scene) {
		s.with(func() { s.answer = whileDown(1 << 30) })
		s.disconnect()
		s.value("web", 2)
		settle()
		s.with(func() { s.answer = nil })
		time.Sleep(5 * time.Minute)
		s.wants("Update web 1 -> 2")
	})
}

// A cache of the API server that is late answers that a position is too large, after three
// seconds. The position is not lost.
func TestALateCacheOfTheAPIServerLosesNoChange(t *testing.T) {
	inScene(t, func(s *scene) {
		s.value("web", 2)
		settle()
		s.stop()
		known := s.store.stream()
		s.value("web", 3)
		s.store = newStore()
		s.store.streams[known.Name] = outbox.Stream{Name: known.Name, Version: known.Version, Position: known.Position, Time: known.Time}
		s.with(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				late := r.URL.Query().Get("resourceVersionMatch") != ""
				if late {
					reply(w, http.StatusGatewayTimeout, tooLarge())
				}
				return late
			}
		})
		s.start()
		settle()
		s.with(func() { s.answer = nil })
		s.wants("Update web 2 -> 3")
		if s.store.lost("can be lost") {
			t.Error("a batch says that changes can be lost")
		}
	})
}

// An aggregated API can ignore the position of a list.
func TestAListOfAnotherPositionIsReported(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		known := s.store.stream()
		s.value("web", 2)
		s.store = newStore()
		s.store.streams[known.Name] = outbox.Stream{Name: known.Name, Version: known.Version, Position: known.Position, Time: known.Time}
		s.with(func() {
			s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				query := r.URL.Query()
				if query.Del("resourceVersionMatch"); query.Get("watch") == "" {
					query.Del("resourceVersion")
				}
				r.URL.RawQuery = query.Encode()
				return false
			}
		})
		s.start()
		settle()
		s.value("web", 3)
		s.wants("Update web 2 -> 3")
		if !s.store.lost("can be lost") {
			t.Error("no batch says that changes can be lost")
		}
	})
}

func TestAnAnswerWithoutAPositionEndsNoList(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		s.value("web", 2)
		s.compact()
		refused := 0
		s.with(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("continue") == "" || refused > 0 {
					return false
				}
				refused++
				reply(w, http.StatusOK, metav1.Status{Status: metav1.StatusFailure, Message: "upstream timed out"})
				return true
			}
		})
		s.start()
		s.wants("Update web 1 -> 2")
		if refused == 0 {
			t.Error("no page was answered by the proxy")
		}
	})
}

// A clock that was wrong for a while must not give wrong times to later changes.
func TestTheTimeOfTheStreamIsNeverInTheFuture(t *testing.T) {
	inScene(t, func(s *scene) {
		s.stop()
		s.store.with(func() {
			stream := s.store.streams["deployments.apps"]
			stream.Time = time.Now().Add(24 * time.Hour)
			s.store.streams["deployments.apps"] = stream
		})
		s.start()
		s.value("web", 2)
		s.wants("Update web 1 -> 2")
		if at := s.store.changes[0].ObservedAt; at.After(time.Now()) {
			t.Errorf("observed at %v, which is %v in the future", at, time.Until(at))
		}
		if at := s.store.stream().Time; at.After(time.Now()) {
			t.Errorf("the stream is at %v, which is %v in the future", at, time.Until(at))
		}
	})
}
