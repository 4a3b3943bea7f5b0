// Package chaos proves what is promised of delivery where it is hard to keep: real
// `bongsu-operator` processes, on a real API server and with real HTTP servers, are
// killed amid floods of Events, lose their disks, their API server and its memory.
//
// The package contains only tests. Those that count report in one line how often a
// process was killed, and what was lost and repeated: `make test-e2e` shows these lines
// at its end.
package chaos
