package spelling

import "testing"

func TestSimilarWordsDifferInFewCharacters(t *testing.T) {
	for word, want := range map[string]string{
		"backoff": "BackOff", "BackOf": "BackOff", "BackkOfff": "BackOff", "Back": "", "OOM": "", "pod": "Pod", "Pods": "Pod", "Pdo": "", "": "", "Po": "",
	} {
		if got := Similar(word, []string{"Node", "Pod", "PodList", "BackOff"}); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
