package source

import "time"

const (
	// maxOccurrences bounds the occurrences, maxChanges all entries of a batch; the
	// latter is also how many changes may wait for the handler before the watch is
	// held back.
	maxOccurrences = 512
	maxChanges     = 4096
	// listWindow is how many occurrences of a list are sorted together.
	listWindow = 10_000
	// pageSize is how many Events are asked for at once.
	pageSize = 500
	// listTimeout bounds the request for one page.
	listTimeout = time.Minute
	// watchTimeout is how long a watch is asked to last at least; it is spread up to
	// twice that. The API server's own default is the same (--min-request-timeout).
	watchTimeout = 30 * time.Minute
	// watchGrace is how long after that the client ends a watch that the server
	// did not.
	watchGrace = 30 * time.Second
	// earlyClose is how long a watch must last to be believed if it brought nothing:
	// some API servers answer an expired position by closing silently
	// (kubernetes#104171, kubernetes#137089).
	earlyClose = 5 * time.Second
)
