// Package bench measures the operator on a real API server, in Go's benchmark
// format. It holds benchmarks only: `go test ./...` runs none of them, `make
// bench` does. How fast feed and match are by themselves is measured beside
// package pipeline; what was measured stands in docs/benchmarks.md.
package bench
