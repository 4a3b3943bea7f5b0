// Package chaos proves what is promised of delivery where it is hard to keep: real
// `bongsu manager` processes, on a real API server and with real HTTP servers, are
// killed amid floods of Events, lose their disks, their API server and its memory.
//
// There is nothing but tests here. Those that count tell in a line how often
// something was killed, and what was lost and repeated: `make test` shows these
// lines at its end.
package chaos
