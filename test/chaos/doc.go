// Package chaos tests the guarantees of docs/guarantees.md under failures. Real operator
// processes work on a real API server with real HTTP servers. They are killed during floods
// of Events, and lose their disks, their API server or its data.
//
// The package contains only tests. Many of them report a summary of one line: the number of
// kills, and what was lost and repeated. `make test-e2e` prints these lines at its end.
package chaos
