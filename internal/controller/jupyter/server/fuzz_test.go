package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
)

func FuzzRead(f *testing.F) {
	f.Add(`{"last_activity": "2026-11-20T19:00:00.123456Z", "started": "2026-11-20T18:00:00Z", "kernels": 1, "connections": 2}`,
		`[{"id": "x", "name": "python3", "last_activity": "2026-11-20T19:00:00Z", "execution_state": "busy", "connections": 1}]`,
		`[{"name": "1", "last_activity": "2026-11-20T19:00:00Z"}]`)
	f.Add(`{"last_activity": "2026-11-20T19:00:00Z"}`, `[]`, `[]`)
	f.Add(`{"last_activity": null}`, `[null]`, `null`)
	f.Add(`{"last_activity": "9999-12-31T23:59:59Z"}`, `[{"execution_state": {}}]`, `[[]]`)
	now := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, status, kernels, terminals string) {
		got, err := server.Read([]byte(status), []byte(kernels), []byte(terminals), now)
		if err != nil {
			return
		}
		for _, last := range []time.Time{got.Server, got.Kernels, got.Terminals} {
			if last.After(now) {
				t.Errorf("last used at %s, which is to come", last)
			}
		}
		if strings.Contains(kernels, `"execution_state": "busy"`) && strings.Count(kernels, "execution_state") == 1 && !got.Busy {
			t.Errorf("kernels %q are not busy", kernels)
		}
		if !strings.Contains(status, "last_activity") && !strings.Contains(strings.ToLower(status), "last") && !strings.Contains(status, `\u`) {
			t.Errorf("status %q shows activity", status)
		}
	})
}
