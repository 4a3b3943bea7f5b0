package share

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAValueThatIsPartOfAnotherLeavesNothingOfIt(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{
		"password": []byte("hunter2"), "url": []byte("postgres://admin:hunter2@db/shop"), "admin": []byte("admin"),
	}}
	for range 20 { // whatever the order of a map
		if got, want := Redact("denied: postgres://admin:hunter2@db/shop", s), "denied: [redacted]"; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// A copy that was not updated holds what its source held before.
func TestTheValuesOfAllSecretsAreTakenOut(t *testing.T) {
	was := &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2-of-old")}}
	is := &corev1.Secret{Data: map[string][]byte{"password": []byte("hunter2")}}
	for _, secrets := range [][]*corev1.Secret{{was, is}, {is, was}} {
		if got, want := Redact("hunter2-of-old must not become hunter2", secrets...), "[redacted] must not become [redacted]"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
