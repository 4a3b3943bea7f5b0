// Package bench measures the operator on a real API server, in Go's benchmark format. It
// contains only benchmarks: `make bench` runs them, `go test ./...` does not. Package
// pipeline has benchmarks of the event source and of matching alone. The results are in
// docs/benchmarks.md. Metrics call the program to compare with the floor.
package bench
