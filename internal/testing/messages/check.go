package messages

import (
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Renderer makes a body of a message.
type Renderer func(t testing.TB, m message.Message) []byte

// Checker holds a body against the rules of who is to take it.
type Checker func(body []byte) error

// LookAsTheyShould has a message of each kind rendered and checked, and compares the
// bodies with the golden files.
func LookAsTheyShould(t *testing.T, render Renderer, check Checker) {
	t.Helper()
	for name, m := range Kinds() {
		t.Run(name, func(t *testing.T) {
			body := render(t, m)
			if err := check(body); err != nil {
				t.Error(err)
			}
			Golden(t, name, body)
		})
	}
}

// KeepLimits has messages of long texts rendered and checked, also some of other units
// than Units.
func KeepLimits(t *testing.T, render Renderer, check Checker, units ...string) {
	t.Helper()
	for _, unit := range append(Units(), units...) {
		if err := check(render(t, Long(unit))); err != nil {
			t.Errorf("%q: %v", unit, err)
		}
	}
}

// Fuzz has messages of any text rendered and checked. Title, text and cluster are to be
// added as seeds before.
func Fuzz(f *testing.F, render Renderer, check Checker) {
	f.Helper()
	f.Fuzz(func(t *testing.T, title, text, cluster string) {
		m := New(title, text)
		m.Cluster = cluster
		if err := check(render(t, m)); err != nil {
			t.Error(err)
		}
	})
}
