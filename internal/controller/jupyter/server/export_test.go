package server

import (
	"encoding/json"
	"time"
)

// Read makes an Activity of three answers' bodies.
func Read(status, kernels, terminals []byte, now time.Time) (Activity, error) {
	var (
		s statusAnswer
		k kernelsAnswer
		t terminalsAnswer
	)
	for _, answer := range []struct {
		body []byte
		into json.Unmarshaler
	}{{status, &s}, {kernels, &k}, {terminals, &t}} {
		if err := json.Unmarshal(answer.body, answer.into); err != nil {
			return Activity{}, err
		}
	}
	return summarize(s, k, t, now)
}
